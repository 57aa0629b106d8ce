package storm

import "io"

// Config says which run to make. The same Config makes the same run, to the
// last packet.
type Config struct {
	Seed uint64
	Ops  int // actions of the programs
	// Skip names actions, by their number from 0, that are left out.
	Skip map[int]bool
	// Trace, if set, gets a line for everything that happens.
	Trace  io.Writer
	Ladder int // how many of the last lines a failed run keeps
}
