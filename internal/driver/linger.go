package driver

import (
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// A thread looks for more for so long after something arrived, before it
// sleeps: to be woken takes about as long, and costs the sender. It does so
// while arrivals follow each other within brisk.
const (
	lingerTime = 50 * time.Microsecond
	brisk      = 200 * time.Microsecond
)

// First it looks again and again, for lookTime, if that has paid: arrivals
// that come in time earn a look more each, up to mostLooks, and one that does
// not costs failedLook. Where the peer waits for this very processor it never
// pays. Then it lets others have the processor between looks.
const (
	lookTime   = 20 * time.Microsecond
	mostLooks  = 8
	failedLook = 16
	leastLooks = -64
)

// If others keep the processor for crowdedAfter, the machine is busy. For a
// while the thread then sleeps at once: one that is woken runs before those
// that compute, one that has made way for them does not. It is leastCrowded
// for somebody who came by, and up to mostCrowded for those who stay.
const (
	crowdedAfter = 100 * time.Microsecond
	leastCrowded = time.Millisecond
	mostCrowded  = 128 * time.Millisecond
)

// pause is what a thread does before it looks at the port again.
type pause uint8

const (
	pauseNone  pause = iota
	pauseYield       // let others have the processor
	pauseSleep       // until something arrives
)

// linger decides that from what arrived and when. But for yielded and what that
// writes, it is guarded by the driver's lock.
type linger struct {
	active  clock.Instant // when something last arrived; what was spent in sending since does not count
	gap     time.Duration // that the thread waited for that arrival
	looks   int
	looking bool // since active

	crowded atomic.Int64 // clock.Instant until which the machine is taken for busy
	avoid   atomic.Int64 // time.Duration that it was, or is, taken for it
}

// arrived takes note of an arrival.
func (l *linger) arrived(now clock.Instant) {
	l.gap, l.active = now.Sub(l.active), now
	if l.looking || l.gap < lookTime {
		l.looks = min(l.looks+1, mostLooks)
	}
	l.looking = false
}

// wrote is told for how long the thread has been sending: it was not waiting.
func (l *linger) wrote(took time.Duration) { l.active = l.active.Add(took) }

// next returns what to do when nothing has arrived.
func (l *linger) next(now clock.Instant) pause {
	waited := now.Sub(l.active)
	if l.gap >= brisk || waited >= lingerTime || l.isCrowded(now) {
		return pauseSleep
	}
	if l.looks > 0 && waited < lookTime {
		l.looking = true
		return pauseNone
	}
	if l.looking {
		l.looking = false
		l.looks = max(l.looks-failedLook, leastLooks)
	}
	return pauseYield
}

// isCrowded reports whether the machine is taken for busy.
func (l *linger) isCrowded(now clock.Instant) bool { return now < clock.Instant(l.crowded.Load()) }

// yielded is told when the thread has let others run, from one instant to
// another. Any thread may call it. Who is still there when the time is over is
// given twice as much.
func (l *linger) yielded(from, to clock.Instant) {
	if to.Sub(from) < crowdedAfter {
		return
	}
	avoid, again := leastCrowded, time.Duration(l.avoid.Load())
	if from.Sub(clock.Instant(l.crowded.Load())) < again {
		avoid = min(2*again, mostCrowded)
	}
	l.avoid.Store(int64(avoid))
	l.crowded.Store(int64(to.Add(avoid)))
}
