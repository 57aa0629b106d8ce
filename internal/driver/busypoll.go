package driver

import (
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// After an arrival a thread looks for more datagrams for lingerTime before it sleeps:
// waking it would take about as long, and would cost the sender time. It does so
// while arrivals follow each other within closeArrivals.
const (
	busyPollTime  = 50 * time.Microsecond
	closeArrivals = 200 * time.Microsecond
)

// First it looks continuously for lookTime, if that has paid: each arrival in time adds
// 1 to looks, up to mostLooks, and a search without an arrival subtracts failedLook. If
// the peer shares this processor, searching never pays. After lookTime the thread yields
// the processor between looks.
const (
	lookTime   = 20 * time.Microsecond
	mostLooks  = 8
	failedLook = 16
	leastLooks = -64
)

// If other threads keep the processor for crowdedAfter, the machine is busy. For some
// time the thread then sleeps at once: a woken thread runs before computing threads, a
// thread that has yielded does not. The time is leastCrowded at first, and doubles up to
// mostCrowded while the machine stays busy.
const (
	crowdedAfter = 100 * time.Microsecond
	leastCrowded = time.Millisecond
	mostCrowded  = 128 * time.Millisecond
)

// pause is what a thread does before it looks at the port again.
type pause uint8

const (
	pauseNone  pause = iota
	pauseYield       // yield the processor
	pauseSleep       // sleep until an arrival
)

// busyPoll decides on pauses from the times of arrivals. The driver's lock guards it,
// except for yielded and the fields that yielded writes.
type busyPoll struct {
	active  clock.Instant // time of the last arrival, plus the time spent sending since
	gap     time.Duration // time that the thread waited for that arrival
	looks   int
	looking bool // the thread has looked continuously since active

	crowded atomic.Int64 // clock.Instant until which the machine is considered busy
	avoid   atomic.Int64 // time.Duration of the last such period
}

// arrived records an arrival.
func (l *busyPoll) arrived(now clock.Instant) {
	l.gap, l.active = now.Sub(l.active), now
	if l.looking || l.gap < lookTime {
		l.looks = min(l.looks+1, mostLooks)
	}
	l.looking = false
}

// wrote records the time that the thread spent sending: it was not waiting.
func (l *busyPoll) wrote(took time.Duration) { l.active = l.active.Add(took) }

// next returns the pause to take if nothing has arrived.
func (l *busyPoll) next(now clock.Instant) pause {
	waited := now.Sub(l.active)
	if l.gap >= closeArrivals || waited >= busyPollTime || l.isCrowded(now) {
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

// isCrowded reports whether the machine is considered busy.
func (l *busyPoll) isCrowded(now clock.Instant) bool { return now < clock.Instant(l.crowded.Load()) }

// yielded records that other threads ran on the processor from one instant to another.
// Any thread may call it. If the machine is busy again soon after a period, the next
// period is twice as long.
func (l *busyPoll) yielded(from, to clock.Instant) {
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
