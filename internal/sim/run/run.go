package run

import (
	"fmt"
	"io"
	"time"
)

// Config says which run to make. The same Config makes the same run, to the last
// packet.
type Config struct {
	Seed uint64
	Ops  int // actions of the programs
	// Skip names actions, by their number from 0, that are left out.
	Skip map[int]bool
	// Trace, if set, gets a line for everything that happens.
	Trace  io.Writer
	Ladder int // how many of the last lines a failed run keeps
}

// Result is what a run came to.
type Result struct {
	Troubles    string        // what the seed made of the profile
	Packets     uint64        // sent by all adapters
	Posted      uint64        // work requests, or messages
	Completions uint64        // of work requests
	Virtual     time.Duration // how long the run took in its own time
	Marks       []uint64      // how often each situation came up
	Cells       []uint64      // and each place of a machine that is walked
	Violation   *Violation    // nil: every promise was kept
	Ladder      []string      // with a violation: what happened last
}

// Violation is a promise that was not kept.
type Violation struct {
	Check  string // name of the check
	Detail string
	Action int           // number of the last action
	At     time.Duration // virtual time
}

// Error tells everything on one line.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s (at %v, after action %d)", v.Check, v.Detail, v.At, v.Action)
}
