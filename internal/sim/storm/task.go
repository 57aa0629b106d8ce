package storm

import "time"

// task is what a program will do about a side, if the side is then still in
// the phase that it was in when the program decided that.
type task struct {
	side *side
	turn uint64
	do   func(*side)
}

// after makes a side's program do something later. A time of 0 is as soon as
// what the adapter is doing is done.
func (s *side) after(d time.Duration, do func(*side)) {
	w := s.host.w
	w.tasks.add(w.now.Add(d), task{s, s.turn, do})
}

// run does the task.
func (t task) run() {
	if s := t.side; s.alive() && s.turn == t.turn {
		t.do(s)
		s.host.pump()
	}
}
