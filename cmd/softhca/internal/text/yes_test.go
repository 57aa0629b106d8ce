package text

import "testing"

func TestYes(t *testing.T) {
	if Yes(true) != "yes" || Yes(false) != "no" {
		t.Error("yes is not yes, or no is not no")
	}
}
