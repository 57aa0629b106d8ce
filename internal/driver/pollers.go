package driver

import (
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// Polling must go on for so long, and for so many rounds, before the goroutine
// leaves the port to it. A program that sleeps polls once before it arms a
// completion queue and once after.
const (
	sustained      = 200 * time.Microsecond
	sustainedPolls = 8
)

// The goroutine steps aside for a quarter of the time that the polling has
// lasted, within these bounds, before it looks whether there is polling still:
// what arrives after the end of it waits for no longer.
const (
	leastAside = 50 * time.Microsecond
	mostAside  = time.Millisecond
)

// pollers decides who reads the port: the driver's goroutine, or threads that
// poll completion queues. Both at once would wake a thread for each arrival
// that the other has taken already, and contend for the shard. So the
// goroutine steps aside when polling is sustained. It is back when a
// completion queue is armed, since its owner is about to sleep, or when nobody
// has polled while it was aside.
type pollers struct {
	state atomic.Uint64 // rounds of pollers since the last look, and the flags below

	// Used by look only.
	polling bool          // in the last looks there were rounds
	polls   uint64        // how many so far
	since   clock.Instant // when there were some first,
	last    clock.Instant // and last
}

// Flags of the state of pollers.
const (
	asideFlag  uint64 = 1 << (63 - iota) // the goroutine has stepped aside
	recallFlag                           // it was called back since the last look
)

// polled counts a round of a poller and reports whether the port is its to
// read.
func (p *pollers) polled() (aside bool) { return p.state.Add(1)&asideFlag != 0 }

// recall gives the port back to the goroutine, which must be woken if recall
// returns true.
func (p *pollers) recall() (wake bool) { return p.state.Swap(recallFlag)&asideFlag != 0 }

// aside reports whether the goroutine has stepped aside.
func (p *pollers) aside() bool { return p.state.Load()&asideFlag != 0 }

// look decides for the goroutine whether it steps aside, or stays so, and for
// how long; 0 means that the port is its to read.
func (p *pollers) look(now clock.Instant) (aside time.Duration) {
	for {
		old, next := p.state.Load(), uint64(0)
		if aside = p.judge(now, old); aside > 0 {
			next = asideFlag
		}
		// A recall meanwhile makes this fail, a later one sees the flag.
		if p.state.CompareAndSwap(old, next) {
			return aside
		}
	}
}

// judge is look for a given state.
func (p *pollers) judge(now clock.Instant, state uint64) (aside time.Duration) {
	polls, wasAside := state&^(asideFlag|recallFlag), state&asideFlag != 0
	switch {
	case state&recallFlag != 0:
		p.polling = false
		return 0
	case polls == 0:
		p.polling = p.polling && !wasAside && now.Sub(p.last) < mostAside
		return 0
	case !p.polling || now.Sub(p.last) >= mostAside && !wasAside:
		p.polling, p.polls, p.since = true, 0, now
	}
	p.polls += polls
	p.last = now
	lasted := now.Sub(p.since)
	if lasted < sustained || p.polls < sustainedPolls {
		return 0
	}
	return min(max(lasted/4, leastAside), mostAside)
}
