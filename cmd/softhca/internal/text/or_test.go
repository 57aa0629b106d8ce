package text

import (
	"strings"
	"testing"
)

func TestOr(t *testing.T) {
	for words, want := range map[string]string{"": "", "udp": "udp", "udp raw": "udp or raw", "rc uc ud": "rc, uc or ud"} {
		if got := Or(strings.Fields(words)); got != want {
			t.Errorf("%q is %q, want %q", words, got, want)
		}
	}
}
