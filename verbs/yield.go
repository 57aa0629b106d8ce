package verbs

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A program that polls in vain lets other goroutines have its thread after
// leastIdle polls: what it polls for may wait for it. Where nobody waits, that
// still costs: the runtime wakes another thread to look for work, perhaps on
// the processor of the peer. So each time that nobody did doubles the polls
// until the next, up to leastIdle<<mostPatience.
const (
	leastIdle    = 32
	mostPatience = 4
)

// othersRan is how long a thread is gone at least if others wanted it as much:
// who polls has it for longer, and the search for work takes less.
const othersRan = 15 * time.Microsecond

// yielder decides when. Many goroutines may call it at once.
type yielder struct {
	idle     atomic.Uint32 // polls in vain since the last time
	patience atomic.Uint32
}

// empty is told of a poll in vain, and lets others have the thread now and then.
func (y *yielder) empty() {
	if !y.due() {
		return
	}
	from := time.Now()
	runtime.Gosched()
	y.learn(time.Since(from), runtime.GOMAXPROCS(0))
}

// due counts a poll in vain and reports whether it is the others' turn.
func (y *yielder) due() bool {
	if y.idle.Add(1) < leastIdle<<y.patience.Load() {
		return false
	}
	y.idle.Store(0)
	return true
}

// learn is told for how long others had the thread, and how many processors there
// are. With one, whoever else runs needs it.
func (y *yielder) learn(gone time.Duration, processors int) {
	patience := y.patience.Load()
	switch {
	case gone >= othersRan || processors == 1:
		y.patience.Store(0)
	case patience < mostPatience:
		y.patience.Store(patience + 1)
	}
}
