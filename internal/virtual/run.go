package virtual

import (
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// Config configures a run. The same Config repeats the run exactly.
type Config struct {
	Seed uint64
	Ops  int // actions of the programs
	// Skip names actions, by their number from 0, to leave out.
	Skip map[int]bool
	// Trace, if set, gets a line for everything that happens.
	Trace io.Writer
	// Ladder is the number of last lines that a failed run keeps.
	Ladder int

	record bool // keep the lines
}

// Result is the result of a run.
type Result struct {
	Faults      string        // features that the seed drew for the profile
	Packets     uint64        // sent by all adapters
	Posted      uint64        // work requests, or messages
	Completions uint64        // of work requests
	Virtual     time.Duration // how long the run took in its own time
	Marks       []uint64      // how often each situation came up
	Cells       []uint64      // how often each cell of a state machine was reached
	Violation   *Violation    // nil: every check passed
	Ladder      []string      // with a violation: what happened last
}

// Violation is a failed check.
type Violation struct {
	Check  string // name of the check
	Detail string
	Action int           // number of the last action
	At     time.Duration // virtual time
}

// Error returns everything in one line.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s (at %v, after action %d)", v.Check, v.Detail, v.At, v.Action)
}

// Simulation is a World with programs and checks.
type Simulation interface {
	// Simulate makes the run. It returns early after a violation.
	Simulate()
	// Report adds to the result what the World does not know.
	Report(*Result)

	world() *World
}

// Run makes the run of a new simulation. A panic of the engine is a violation
// like any other. A failed run is repeated with its last events recorded;
// recording every run would take longer than the runs.
func Run(c Config, open func(Config) Simulation) *Result {
	s := open(c)
	simulate(s)
	w := s.world()
	r := &Result{
		Packets: w.Packets, Posted: w.Posted, Completions: w.Completions, Virtual: time.Duration(w.Now), Marks: w.counts, Violation: w.Violation,
	}
	s.Report(r)
	if w.Violation == nil || c.Ladder == 0 {
		return r
	}
	if !w.Telling() {
		c.record = true
		s = open(c)
		simulate(s)
	}
	r.Ladder = s.world().lines
	return r
}

func simulate(s Simulation) {
	defer func() {
		if p := recover(); p != nil {
			s.world().Fail("panic", "%v\n%s", p, debug.Stack())
		}
	}()
	s.Simulate()
}
