package check

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/softhca/softhca/internal/check/findings"
)

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	faint  = "\x1b[2m"
	plain  = "\x1b[0m"
)

// columns is the maximum length of a line of the rule and the fix.
const columns = 100

// maxListed is the maximum number of process IDs of a finding in the text.
const maxListed = 8

// printer writes the text of a report.
type printer struct {
	*bufio.Writer
	colors bool
}

// Text writes the report for people: the findings, and a line that counts them. It blocks as w
// does.
func (r *Report) Text(w io.Writer, colors bool) error {
	p := &printer{bufio.NewWriter(w), colors}
	for _, f := range r.Findings {
		p.finding(f, len(r.Processes) > 1)
	}
	for _, text := range r.Problems {
		fmt.Fprintf(p, "softhca: check: note: %s\n", text)
	}
	color := green
	switch {
	case r.Errors > 0:
		color = red
	case r.Advice > 0 || len(r.Processes) == 0:
		color = yellow
	}
	fmt.Fprintf(p, "softhca: check: %s\n", p.in(bold+color, r.Summary()))
	return p.Flush()
}

// in returns s in a color.
func (p *printer) in(color, s string) string {
	if !p.colors || s == "" || color == "" {
		return s
	}
	return color + s + plain
}

// Summary counts the findings in a line.
func (r *Report) Summary() string {
	if len(r.Processes) == 0 {
		return "nothing was checked: no process of the program used the verbs"
	}
	var parts []string
	if r.Errors > 0 {
		parts = append(parts, plural(r.Errors, "error"))
	}
	if r.Advice > 0 {
		parts = append(parts, strconv.Itoa(r.Advice)+" advice")
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		text = "no findings"
	}
	if len(r.Processes) > 1 {
		text += fmt.Sprintf(" in %d processes", len(r.Processes))
	}
	if r.Suppressed > 0 {
		text += fmt.Sprintf(" (%d suppressed)", r.Suppressed)
	}
	return text
}

// plural returns a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// finding writes a finding.
func (p *printer) finding(f *Finding, many bool) {
	color := red
	if f.Level == findings.Advice {
		color = yellow
	}
	times := ""
	if f.Count > 1 {
		times = fmt.Sprintf(", %d times", f.Count)
	}
	if many {
		times += f.processes()
	}
	fmt.Fprintf(p, "softhca: check: %s: %s%s\n", f.Level, p.in(bold+color, f.Name), times)
	p.line("", f.Title, "")
	p.line("", f.Text, bold)
	for i := range f.Stacks {
		s := &f.Stacks[i]
		p.line("", s.Title+":", "")
		for j := range s.Frames {
			fmt.Fprintf(p, "    #%-2d %s\n", j, p.frame(&s.Frames[j]))
		}
	}
	p.wrapped("rule: " + f.Rule)
	p.wrapped("fix: " + f.Fix)
	p.line("see ", f.Page, faint)
	_ = p.WriteByte('\n') // Flush returns the error
}

// processes says in which processes a finding was found.
func (f *Finding) processes() string {
	var all []string
	for i, pid := range f.PIDs {
		if i == maxListed {
			all = append(all, fmt.Sprintf("and %d more", len(f.PIDs)-i))
			break
		}
		all = append(all, strconv.Itoa(pid))
	}
	if len(f.PIDs) == 1 {
		return ", process " + all[0]
	}
	return ", processes " + strings.Join(all, " ")
}

// line writes a line, if there is text for it.
func (p *printer) line(name, text, color string) {
	if text != "" {
		fmt.Fprintf(p, "  %s%s\n", name, p.in(color, text))
	}
}

// wrapped writes a text of at least two words, in lines of columns characters.
func (p *printer) wrapped(text string) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return
	}
	length := 1
	_ = p.WriteByte(' ') // Flush returns the error
	for _, w := range words {
		if n := utf8.RuneCountInString(w) + 1; length+n > columns {
			fmt.Fprintf(p, "\n    %s", w)
			length = n + 3
		} else {
			fmt.Fprintf(p, " %s", w)
			length += n
		}
	}
	_ = p.WriteByte('\n')
}

// frame returns a frame in a line.
func (p *printer) frame(f *Frame) string {
	function := f.Function
	if function != "" {
		function = p.in(bold, function) + " "
	}
	return function + f.place()
}

// place returns where a frame is: its source line, or else its address.
func (f *Frame) place() string {
	if f.File != "" {
		return f.File + ":" + strconv.Itoa(f.Line)
	}
	if f.Library == "" {
		return "(" + f.Address + ")"
	}
	return "(" + path.Base(f.Library) + "+" + f.Address + ")"
}

// String returns the function of a frame, and where it is.
func (f *Frame) String() string {
	return (&printer{}).frame(f)
}
