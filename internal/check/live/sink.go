package live

import (
	"fmt"
	"hash/maphash"
	"os"
	"strings"

	"github.com/softhca/softhca/internal/check/findings"
	"github.com/softhca/softhca/internal/lock"
)

// maxKnown is the maximum number of findings of a sink.
const maxKnown = 512

// Finding is a bug of the program, with the calls that matter.
type Finding struct {
	Name   string
	Advice bool
	Text   string
	Calls  []Call
}

// Call is a call that a finding is about.
type Call struct {
	Title string
	Stack []Frame
}

// Sink reports findings, each once.
type Sink struct {
	report func(*Finding)
	seed   maphash.Seed // of the sums of payload
	lib    library

	mu      lock.Mutex[lock.CheckSink] // guards what follows
	stacks  map[pcs]*stack
	known   map[known]struct{}
	pending []finding
	open    map[*Checker]struct{}
	// recorder writes the findings for "softhca run --check"; nil for none
	recorder *recorder
}

// known is what makes a finding different from others: its name, and its first call.
type known struct {
	name string
	pcs  pcs
}

// finding is a finding that is not reported yet.
type finding struct {
	name, text string
	calls      []call
}

// call is a call of a finding. Without a stack it is left out.
type call struct {
	title string
	stack *stack
}

// NewSink returns a sink that calls report, on any goroutine, without a lock of the checker.
func NewSink(report func(*Finding)) *Sink {
	return &Sink{report: report, seed: maphash.MakeSeed(), lib: newLibrary(), stacks: map[pcs]*stack{}, known: map[known]struct{}{}, open: map[*Checker]struct{}{}}
}

// found makes a finding.
func found(name string, calls []call, format string, args ...any) finding {
	return finding{name, fmt.Sprintf(format, args...), calls}
}

// add takes findings that are to be reported.
func (s *Sink) add(all ...finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range all {
		k := known{name: f.name}
		if len(f.calls) > 0 && f.calls[0].stack != nil {
			k.pcs = f.calls[0].stack.pcs
		}
		if _, again := s.known[k]; again || len(s.known) >= maxKnown {
			continue
		}
		s.known[k] = struct{}{}
		s.pending = append(s.pending, f)
	}
}

// Tell reports what was found since the last call. The caller holds no lock. It first writes all findings for
// "softhca run --check", because the program may end in the call that reports one.
func (s *Sink) Tell() {
	if s == nil {
		return
	}
	s.mu.Lock()
	pending := s.pending
	s.pending = nil
	recorder := s.recorder
	s.mu.Unlock()
	var all []*Finding
	fatal := false
	for i := range pending {
		f := pending[i].public(&s.lib)
		if f == nil {
			continue
		}
		all = append(all, f)
		if fatal = recorder.record(f); fatal {
			break
		}
	}
	for _, f := range all {
		s.report(f)
	}
	if fatal {
		os.Exit(fatalExit)
	}
}

// tolerated reports whether a finding is about a call that a package of the library makes, and not the program.
// Package stream has queue pairs of its own. Package rdmacm destroys objects that the
// program may still use.
func (by caller) tolerated(name string) bool {
	return by == byStream || by == byRDMACM && name == "destroy-refused"
}

// public returns the finding with the names of its functions; nil if it is tolerated.
func (f *finding) public(lib *library) *Finding {
	row, _ := findings.Find(f.name)
	p := &Finding{Name: f.name, Text: f.text, Advice: row.Level == findings.Advice || f.name == leftAtClose}
	for i, c := range f.calls {
		if c.stack == nil {
			continue
		}
		frames, by := c.stack.frames(lib)
		if i == 0 && by.tolerated(f.name) {
			return nil
		}
		p.Calls = append(p.Calls, Call{c.title, frames})
	}
	return p
}

// String returns the finding as text of several lines, as "softhca run --check" prints it.
func (f *Finding) String() string {
	row, _ := findings.Find(f.Name)
	level := findings.Error
	if f.Advice {
		level = findings.Advice
	}
	var b strings.Builder
	fmt.Fprintf(&b, "softhca: check: %s: %s\n  %s\n  %s\n", level, f.Name, row.Title, f.Text)
	for _, c := range f.Calls {
		fmt.Fprintf(&b, "  %s:\n", c.Title)
		for i, frame := range c.Stack {
			fmt.Fprintf(&b, "    #%-2d %s %s:%d\n", i, frame.Function, frame.File, frame.Line)
		}
	}
	fmt.Fprintf(&b, "  rule: %s\n  fix: %s\n  see docs/checks.md#%s", row.Rule, row.Fix, f.Name)
	return b.String()
}

// Door gives package verbstest access to the sink of a configuration of verbs, as device.Door does for objects.
type Door struct{ sink *Sink }

// DoorTo returns the Door of a sink.
func DoorTo(s *Sink) Door { return Door{s} }

func (d *Door) sinkOf() *Sink { return d.sink }

// SinkOf returns the sink of a configuration of verbs; nil if it is not checked.
func SinkOf(config interface{ sinkOf() *Sink }) *Sink { return config.sinkOf() }
