package text

import "testing"

func TestCount(t *testing.T) {
	for n, want := range []string{"0 times", "1 time", "2 times"} {
		if got := Count(n, "time", "times"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
