package stacks

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/internal/check"
)

// The bounds of what is found.
const (
	MaxProcesses = 32
	maxThreads   = 256 // of a process
	maxStacks    = 32  // different ones of a process
	maxFrames    = 64  // of a thread
	maxShown     = 24  // frames of a stack that are kept
	maxWord      = 200 // bytes of a name
)

// Process has the stacks of a process.
type Process struct {
	PID        int      `json:"pid"`                      // process ID
	Name       string   `json:"name"`                     // of its program
	Problem    string   `json:"problem,omitempty"`        // why the stacks are not known
	Threads    []Thread `json:"threads"`                  // its threads; those with equal stacks once
	Engine     int      `json:"engine_threads,omitempty"` // threads of softhca, which are left out
	More       int      `json:"more_threads,omitempty"`   // threads beyond the bound of a report
	QueuePairs []string `json:"queue_pairs,omitempty"`    // what its queue pairs wait for, a text each
	Goroutines string   `json:"goroutines,omitempty"`     // of a program in Go: what it wrote after SIGQUIT

	goProgram bool // its executable is a program in Go
}

// Thread is a thread, or several with equal stacks.
type Thread struct {
	TID    int           `json:"thread"`           // thread ID, of the first of several
	Name   string        `json:"name"`             // of the thread
	Count  int           `json:"count"`            // threads with this stack
	Inside bool          `json:"engine,omitempty"` // the thread is in softhca's engine, whose frames are left out
	State  string        `json:"state,omitempty"`  // if it could not be traced: what it does, from /proc
	Cut    bool          `json:"cut,omitempty"`    // there are more frames
	Frames []check.Frame `json:"frames,omitempty"` // the innermost first
}

// GoProgram reports whether the process executes a program in Go, which writes its goroutines when it gets SIGQUIT.
func (p *Process) GoProgram() bool { return p.goProgram }

// add adds a thread. It counts one whose stack is equal to that of another thread.
func (p *Process) add(t Thread) {
	for i := range p.Threads {
		if q := &p.Threads[i]; q.key() == t.key() {
			q.Count++
			return
		}
	}
	if len(p.Threads) == maxStacks {
		p.More++
		return
	}
	t.Count = 1
	p.Threads = append(p.Threads, t)
}

// key is equal for threads with equal stacks.
func (t *Thread) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s\n", t.Inside, t.State)
	for i := range t.Frames {
		f := &t.Frames[i]
		fmt.Fprintf(&b, "%s %s %s %s %d\n", f.Library, f.Address, f.Function, f.File, f.Line)
	}
	return b.String()
}
