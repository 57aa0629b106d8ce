package run

import (
	"fmt"
	"io"
	"time"
)

// Config configures a run. The same Config repeats the run exactly.
type Config struct {
	Seed uint64
	Ops  int // actions of the programs
	// Skip names actions, by their number from 0, to leave out.
	Skip map[int]bool
	// Trace, if set, gets a line for everything that happens.
	Trace  io.Writer
	Ladder int // number of last lines that a failed run keeps
}

// Result is the result of a run.
type Result struct {
	Troubles    string        // features that the seed drew for the profile
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
