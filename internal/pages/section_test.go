package pages

import (
	"fmt"
	"strings"
	"testing"
)

// The marks around a frame: what tables know of the subject of a section.
const (
	frameBegin = "<!-- frame -->\n"
	frameEnd   = "<!-- end of frame -->\n"
)

// section is a part of a page with a second-level heading.
type section struct{ heading, body string }

// sections splits a page. The text before the first heading is the head.
func sections(page string) (head string, all []section) {
	parts := strings.Split("\n"+page, "\n## ")
	for _, p := range parts[1:] {
		heading, body, _ := strings.Cut(p, "\n")
		all = append(all, section{heading, body + "\n"})
	}
	return strings.TrimPrefix(parts[0], "\n") + "\n", all
}

// join puts a page together again.
func join(head string, all []section) string {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range all {
		b.WriteString("## " + s.heading + "\n" + s.body)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// framed returns the section with another frame, which is put at the top if there
// was none.
func (s section) framed(frame string) (section, error) {
	before, rest, ok := strings.Cut(s.body, frameBegin)
	if !ok {
		before, rest = "\n", frameEnd+s.body
	}
	_, after, ok := strings.Cut(rest, frameEnd)
	if !ok {
		return s, fmt.Errorf("%s: the frame has no end: want %s", s.heading, frameEnd)
	}
	s.body = before + frameBegin + frame + frameEnd + after
	return s, nil
}

// TestSections cuts a page and puts it together, with a new frame.
func TestSections(t *testing.T) {
	const page = "# Title\n\nhead\n\n## A\n\n" + frameBegin + "old\n" + frameEnd + "\nprose\n\n## B\n\nmore\n"
	head, all := sections(page)
	if got := join(head, all); got != page || len(all) != 2 || all[1].heading != "B" {
		t.Errorf("%d sections, and together they are\n%s", len(all), got)
	}
	for i, want := range []string{"\n" + frameBegin + "new\n" + frameEnd + "\nprose\n\n", "\n" + frameBegin + "new\n" + frameEnd + "\nmore\n\n"} {
		if s, err := all[i].framed("new\n"); err != nil || s.body != want {
			t.Errorf("with a frame section %d is %q, %v; want %q", i, s.body, err, want)
		}
	}
	if _, err := (section{"A", frameBegin + "text"}).framed("new\n"); err == nil {
		t.Error("a frame without an end is taken")
	}
}
