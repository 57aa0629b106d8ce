package text

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, indent int
		want          []string
	}{
		{"", 10, 0, []string{""}},
		{"one two three", 20, 0, []string{"one two three"}},
		{"one two three", 7, 0, []string{"one two", "three"}},
		{"one two  three", 8, 0, []string{"one two", "three"}},
		{"one two three four", 10, 3, []string{"one two", "three", "four"}},
		{"enormous a", 3, 1, []string{"enormous", "a"}},
		{"\x1b[1mone two\x1b[0m three", 13, 0, []string{"\x1b[1mone two\x1b[0m three"}},
		{"→→→ ✓", 5, 0, []string{"→→→ ✓"}},
	} {
		if got := Wrap(c.text, c.width, c.indent); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
