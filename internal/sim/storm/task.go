package storm

import (
	"time"

	"github.com/softhca/softhca/internal/deadline"
)

// task is what a program will do about a side, if the side is then still in
// the phase that it was in when the program decided that.
type task struct {
	time deadline.Link
	side *side
	turn uint64
	do   func(*side)
}

// after makes a side's program do something later. A time of 0 is as soon as
// what the adapter is doing is done.
func (s *side) after(d time.Duration, do func(*side)) {
	w := s.host.w
	w.tasks.Set(&task{side: s, turn: s.turn, do: do}, w.now.Add(d))
}

// run does the task.
func (t *task) run() {
	if s := t.side; s.alive() && s.turn == t.turn {
		t.do(s)
		s.host.pump()
	}
}
