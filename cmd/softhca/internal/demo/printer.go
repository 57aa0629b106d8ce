package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
)

// The columns of the text: the default, the maximum of prose, and the minimum of a
// ladder.
const (
	defaultWidth = 100
	proseWidth   = 100
	minWidth     = 72
)

// printer writes the text, with colors if the output has them.
type printer struct {
	w      io.Writer
	color  bool
	width  int // columns; 0: defaultWidth
	scene  int
	failed int   // checks
	err    error // first write error
	sum    *Summary
}

// newPrinter returns the printer of a demonstration.
func newPrinter(o *Options) *printer {
	p := &printer{w: o.Out, color: o.Color, width: o.Width, sum: o.Summary}
	if p.sum == nil {
		p.sum = new(Summary)
	}
	return p
}

// style is a style of text, by its number on terminals.
type style int

const (
	plain  style = 0
	bold   style = 1
	dim    style = 2
	red    style = 31
	green  style = 32
	yellow style = 33
	cyan   style = 36
)

// paint returns s in a style.
func (p *printer) paint(st style, s string) string {
	if !p.color || st == plain {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", st, s)
}

// columns returns the maximum columns of the text.
func (p *printer) columns() int {
	if p.width == 0 {
		return defaultWidth
	}
	return max(p.width, minWidth)
}

// margin stands before each line of the body.
const margin = "   "

// line writes a line of the body, whatever its length.
func (p *printer) line(format string, args ...any) {
	p.write(strings.TrimRight(margin+fmt.Sprintf(format, args...), " ") + "\n")
}

// text writes prose in lines; all lines but the first are indented by indent
// blanks.
func (p *printer) text(indent int, format string, args ...any) {
	lines := text.Wrap(fmt.Sprintf(format, args...), min(p.columns(), proseWidth)-len(margin), indent)
	for i, s := range lines {
		if i > 0 {
			s = strings.Repeat(" ", indent) + s
		}
		p.line("%s", s)
	}
}

// title begins a scene.
func (p *printer) title(s string) {
	p.scene++
	p.sum.Scenes = append(p.sum.Scenes, Scene{Title: s, Checks: []Check{}})
	p.write("\n" + p.paint(bold, fmt.Sprintf("%d  %s", p.scene, s)) + "\n")
}

// check prints a check and its result, and counts a failure.
func (p *printer) check(ok bool, format string, args ...any) {
	mark := p.paint(green, "✓")
	if !ok {
		mark = p.paint(red, "✗ NOT TRUE:")
		p.failed++
	}
	text := fmt.Sprintf(format, args...)
	p.text(2, "%s %s", mark, text)
	if last := len(p.sum.Scenes) - 1; last >= 0 {
		p.sum.Scenes[last].Checks = append(p.sum.Scenes[last].Checks, Check{Holds: ok, Text: text})
	}
}

func (p *printer) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}
