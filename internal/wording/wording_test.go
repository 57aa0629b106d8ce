package wording

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

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"drop", "drop", 0}, {"", "dup", 3}, {"dorp", "drop", 1}, {"drip", "drop", 1}, {"dro", "drop", 1},
		{"ddrop", "drop", 1}, {"rdpo", "drop", 2}, {"delay", "drop", 4},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q are %d and %d apart, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
