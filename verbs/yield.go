package verbs

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A program whose polls find nothing yields its thread to other goroutines after leastIdle polls: the
// completion that it polls for may depend on one of them. If no goroutine is waiting, a yield
// still has a cost: the runtime wakes another thread to look for work, perhaps on the peer's
// processor. So each yield that turns out useless doubles the number of polls until the next
// one, up to leastIdle<<maxBackoff.
const (
	leastIdle  = 32
	maxBackoff = 4
)

// othersRan is the shortest time that a thread is gone if other goroutines needed it: a
// goroutine that polls keeps it for longer, and the search for work takes less.
const othersRan = 15 * time.Microsecond

// yielder decides when a poll yields. Many goroutines may call it at once.
type yielder struct {
	idle    atomic.Uint32 // empty polls since the last yield
	backoff atomic.Uint32
}

// empty counts an empty poll, and yields the thread now and then.
func (y *yielder) empty() {
	if !y.due() {
		return
	}
	from := time.Now()
	runtime.Gosched()
	y.learn(time.Since(from), runtime.GOMAXPROCS(0))
}

// due counts an empty poll and reports whether it has to yield.
func (y *yielder) due() bool {
	if y.idle.Add(1) < leastIdle<<y.backoff.Load() {
		return false
	}
	y.idle.Store(0)
	return true
}

// learn takes into account how long the thread was gone, and the number of processors. With one
// processor, any other goroutine needs it.
func (y *yielder) learn(gone time.Duration, processors int) {
	backoff := y.backoff.Load()
	switch {
	case gone >= othersRan || processors == 1:
		y.backoff.Store(0)
	case backoff < maxBackoff:
		y.backoff.Store(backoff + 1)
	}
}
