package printable

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 0, ""}, {"lost by rule 'drop p=0.1'", 0, "lost by rule 'drop p=0.1'"}, {"größer → 1", 0, "größer → 1"},
		{"a\nVERDICT clean\r\tb", 0, `a\nVERDICT clean\r\tb`},
		{"\x1b[2J\a\x00\x7f", 0, `\x1b[2J\x07\x00\x7f`},
		{"\u009b31m\u0085", 0, `\u009b31m\u0085`}, // C1: CSI and a line end
		{"\u202eabc\u2066\u200f\u2028\ufeff", 0, `\u202eabc\u2066\u200f\u2028\ufeff`},
		{"\x80\xff\xc3", 0, `\x80\xff\xc3`}, {"\ufffd", 0, `\ufffd`}, {"\U000e0041", 0, `\U000e0041`},
		{"\u00a0\u3000", 0, `\u00a0\u3000`},
		{"12345", 5, "12345"}, {"123456", 5, "1234…"}, {"→→→→→", 5, "→→→→→"}, {"→→→→→→", 5, "→→→→…"}, {"1234\x1b", 5, "1234…"}, {"\x1b", 3, "…"},
	} {
		if got := Line(c.in, c.limit); got != c.want {
			t.Errorf("Line(%q, %d) is %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a\n\tb\n": "a\n\tb\n", "a\r\nb": "a\\r\nb", "\x1b[31ma\n": `\x1b[31ma` + "\n", "\xff\n": `\xff` + "\n", "\u202e": `\u202e`,
	} {
		if got := Lines(in); got != want {
			t.Errorf("Lines(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestMask(t *testing.T) {
	if got := Mask("a\x1b→\u202e\xff\n", '?'); got != "a?→???" {
		t.Errorf("%q", got)
	}
}

func TestArgs(t *testing.T) {
	args := []string{"explain", "a\nb", "--html=c\x1b", "d"}
	if got := Args("explain a\nb: c\x1b: no\nline", args); got != `explain a\nb: c\x1b: no`+"\nline" {
		t.Errorf("%q", got)
	}
}

// FuzzLine checks the promises of the functions for any text.
func FuzzLine(f *testing.F) {
	f.Add("plain", 0)
	f.Add("\x1b[31m\u202e\x80\n→", 7)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		line := Line(s, limit)
		if !clean(line, "") || Line(line, limit) != line && limit != 1 || limit > 0 && utf8.RuneCountInString(line) > limit {
			t.Errorf("Line(%q, %d) is %q", s, limit, line)
		}
		if lines := Lines(s); !clean(lines, "\n\t") || strings.Count(lines, "\n") != strings.Count(s, "\n") || Lines(lines) != lines {
			t.Errorf("Lines(%q) is %q", s, lines)
		}
		if masked := Mask(s, '.'); !clean(masked, "") || utf8.RuneCountInString(masked) != utf8.RuneCountInString(s) {
			t.Errorf("Mask(%q) is %q", s, masked)
		}
	})
}
