package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
)

// indent begins the lines of output; no line of a script but those begins
// with a blank.
const indent = "    "

// Report is what came of a script.
type Report struct {
	Header
	Text     string         // the script with the output that it produced
	Steps    int            // that were run
	Statuses []ib.WCStatus  // completion statuses that occurred, without SUCCESS, in their order of value
	Events   []ib.EventType // asynchronous events that occurred, in their order of value
}

// Error says which line of a script is at fault, and why.
type Error struct {
	File string
	Line int
	Step string // the words of the line; empty when it is no step
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

// Mismatch is the cause of an Error when a step had other consequences than
// the script says.
type Mismatch struct{ Want, Got []string }

// Error shows both.
func (m *Mismatch) Error() string {
	return "the step had other consequences than the script says\nwant:\n" + block(m.Want) + "got:\n" + block(m.Got)
}

func block(lines []string) string {
	if len(lines) == 0 {
		return indent + "(nothing)\n"
	}
	return indent + strings.Join(lines, "\n"+indent) + "\n"
}

// Run runs a script, whose name is for its messages. Its errors are *Error:
// for a script that cannot be understood, and then the report ends before the
// step; for the first step whose consequences are not those in the text
// (*Mismatch), which does not end the script; for a header that is not borne
// out. It never panics, reads no file and no clock.
func Run(name, text string) (Report, error) {
	f, err := parse(name, text)
	if err != nil {
		return Report{}, err
	}
	return run(f, &world{})
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

// file is a script in pieces.
type file struct {
	name   string
	lines  []line // without output
	steps  []*step
	header Header
}

// line is a line of the text; step is set where one begins.
type line struct {
	text string
	step *step
}

// step is a number of commands that are carried out at once, and what comes
// of them.
type step struct {
	file     *file
	line     int // of the last command
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

// parse takes a script apart.
func parse(name, text string) (*file, error) {
	f := &file{name: name}
	var last *step // whose output may follow
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
