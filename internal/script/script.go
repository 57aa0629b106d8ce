package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
)

// indent begins the lines of output; only output lines begin with a blank.
const indent = "    "

// Report is the outcome of a script.
type Report struct {
	Header
	Text     string         // the script with the output of this run
	Steps    int            // number of steps that ran
	Statuses []ib.WCStatus  // completion statuses that occurred, without SUCCESS, in their order of value
	Events   []ib.EventType // asynchronous events that occurred, in their order of value
}

// Error says which line of a script is at fault, and why.
type Error struct {
	File string
	Line int
	Step string // the words of the line; empty for a line that is no step
	Err  error
}

// Error names file, line, step and cause.
func (e *Error) Error() string {
	if e.Step == "" {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s:%d: %s: %v", e.File, e.Line, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Mismatch is the cause of an Error when a step's output differs from the
// script's.
type Mismatch struct{ Want, Got []string }

// Error shows the output that the script has and the actual one.
func (m *Mismatch) Error() string {
	return "the step had other consequences than the script says\nwant:\n" + block(m.Want) + "got:\n" + block(m.Got)
}

func block(lines []string) string {
	if len(lines) == 0 {
		return indent + "(nothing)\n"
	}
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}

// Run runs a script, whose name is for its messages. Its errors are *Error: for
// a line that cannot be parsed or carried out, and then the report ends before
// that step; for the first step whose output differs from the text (*Mismatch),
// after which the script goes on; for a header whose statuses or events did not
// occur. It never panics, and reads no file and no clock.
func Run(name, text string) (Report, error) {
	f, err := parse(name, text)
	if err != nil {
		return Report{}, err
	}
	return run(f, newWorld(nil))
}

func run(f *file, w *world) (Report, error) {
	r := Report{Header: f.header}
	for _, s := range f.steps {
		if err := w.perform(s); err != nil {
			return r, err
		}
		r.Steps++
	}
	r.Text = f.render()
	r.Statuses, r.Events = w.statuses.sorted(), w.events.sorted()
	for _, s := range f.steps {
		if !slices.Equal(s.want, s.got) {
			return r, f.fail(s.line, s.commands[0].text, &Mismatch{s.want, s.got})
		}
	}
	return r, f.header.check(f, &r)
}

// file is a parsed script.
type file struct {
	name   string
	lines  []line // all but output lines
	steps  []*step
	header Header
}

// line is a line of the text; step is set on the first line of a step.
type line struct {
	text string
	step *step
}

// step is a group of commands that are carried out together, and their output.
type step struct {
	file     *file
	line     int // line of the last command
	commands []command
	want     []string
	got      []string
}

// command is one line of a step.
type command struct {
	line int
	text string
}

func (f *file) fail(line int, step string, err error) *Error {
	return &Error{File: f.name, Line: line, Step: step, Err: err}
}

// parse splits a script into header, steps and output.
func parse(name, text string) (*file, error) {
	f := &file{name: name}
	var last *step // the step that following output belongs to
	for i, text := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		text = strings.TrimRight(text, " \t\r")
		n := i + 1
		switch {
		case text == "" || text[0] == '#':
			if err := f.header.read(f, n, text); err != nil {
				return nil, err
			}
			f.lines = append(f.lines, line{text, nil})
			last = nil
		case text[0] == ' ' || text[0] == '\t':
			if last == nil {
				return nil, f.fail(n, "", fmt.Errorf("output without a step before it; steps begin in the first column"))
			}
			last.want = append(last.want, strings.TrimPrefix(text, indent))
		case text[0] == '&':
			if last == nil || len(last.want) > 0 {
				return nil, f.fail(n, text, fmt.Errorf("& joins a command to the one on the line before, which is none"))
			}
			last.commands = append(last.commands, command{n, strings.TrimSpace(text[1:])})
			last.line = n
			f.lines = append(f.lines, line{text, nil})
		default:
			last = &step{file: f, line: n, commands: []command{{n, text}}}
			f.steps = append(f.steps, last)
			f.lines = append(f.lines, line{text, last})
		}
	}
	return f, nil
}

// render returns the script with the output that its steps had.
func (f *file) render() string {
	var b strings.Builder
	var open *step
	flush := func() {
		if open != nil {
			for _, l := range open.got {
				b.WriteString(indent + l + "\n")
			}
			open = nil
		}
	}
	for _, l := range f.lines {
		if l.step != nil || l.text == "" || l.text[0] == '#' {
			flush()
		}
		if l.step != nil {
			open = l.step
		}
		b.WriteString(l.text + "\n")
	}
	flush()
	return b.String()
}
