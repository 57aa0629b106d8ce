package stacks

import (
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/internal/printable"
)

// maxLine bounds a line of the text, in characters.
const maxLine = 300

// Text writes the stacks of a process for people. Each line begins with indent. It ignores errors of w.
func (p *Process) Text(w io.Writer, indent string) {
	line := func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s%s\n", indent, printable.Line(fmt.Sprintf(format, args...), maxLine))
	}
	line("process %s (%d):", p.Name, p.PID)
	if p.Problem != "" {
		line("  its stacks are not known: %s", p.Problem)
	}
	for i := range p.Threads {
		t := &p.Threads[i]
		line("  %s:", t.title())
		for j := range t.Frames {
			line("    #%-2d %v", j, &t.Frames[j])
		}
		if t.Cut {
			line("    and more frames")
		}
	}
	if p.Engine > 0 {
		line("  %d of its threads are softhca's own", p.Engine)
	}
	if p.More > 0 {
		line("  %d more threads", p.More)
	}
	for _, q := range p.QueuePairs {
		line("  %s", q)
	}
	if p.Goroutines != "" {
		line("  goroutines:")
		for l := range strings.SplitSeq(strings.TrimSpace(p.Goroutines), "\n") {
			line("    %s", strings.ReplaceAll(l, "\t", "  "))
		}
	}
}

// title names a thread, or several, and says what is known of it beyond its frames.
func (t *Thread) title() string {
	s := fmt.Sprintf("thread %s (%d)", t.Name, t.TID)
	if t.Count > 1 {
		s = fmt.Sprintf("%d threads, such as %s (%d)", t.Count, t.Name, t.TID)
	}
	if t.State != "" {
		s += ": " + t.State
	}
	if t.Inside {
		s += ", in softhca's engine"
	}
	return s
}
