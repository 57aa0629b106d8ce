package driver

import (
	"math"
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

// lentAside is how long the goroutine stays aside while a thread that sleeps
// waits at the port for it: not for ever at first, so that for the time in
// which such threads come and go none has to wake it.
const lentAside = 200 * time.Microsecond

// A program may poll for some completion and then watch its memory for what the
// peer writes there, without polling. What arrives meanwhile lies in the port
// until the goroutine looks. Where it finds something so, and nobody has polled
// or posted for awayTime, it stays at the port: for leastAlone, and up to mostAlone when
// that happens again and again.
const (
	awayTime   = 50 * time.Microsecond
	leastAlone = time.Millisecond
	mostAlone  = 64 * time.Millisecond
)

// forever is how long the goroutine stays aside when one thread has slept at
// the port for long.
const forever = time.Duration(math.MaxInt64)

// pollers decides who reads the port: the driver's goroutine, threads that
// poll completion queues, or a thread that sleeps until there is a completion,
// which may as well sleep at the port and see to what arrives itself. Two at
// once would wake a thread for each arrival that the other has taken already,
// and contend for the shard. So the goroutine steps aside when polling is
// sustained, and for a thread that sleeps. It is back when a completion queue
// is armed, since its owner is about to sleep, or when nobody has polled or
// slept at the port while it was aside.
type pollers struct {
	state atomic.Uint64 // rounds of others since the last look, and the flags below

	latest atomic.Int64 // clock.Instant of the last of these rounds, or of a post

	// Used by the goroutine only.
	polling bool          // in the last looks there were rounds
	polls   uint64        // how many so far
	since   clock.Instant // when there were some first,
	last    clock.Instant // and last

	alone clock.Instant // until when it does not step aside for who polls
	avoid time.Duration // for how long that was, or is
}

// Flags of the state of pollers.
const (
	asideFlag  uint64 = 1 << (63 - iota) // the goroutine has stepped aside
	recallFlag                           // it was called back since the last look
	wantFlag                             // a thread would have slept at the port
	lentFlag                             // the goroutine is aside for such a thread,
	guestFlag                            // which is at the port now,
	deepFlag                             // and must wake it when it goes
	cameFlag                             // one has come there since the last look
	allFlags   = asideFlag | recallFlag | wantFlag | lentFlag | guestFlag | deepFlag | cameFlag
)

// change replaces the state by what f makes of it, and returns the old one.
func (p *pollers) change(f func(old uint64) uint64) uint64 {
	for {
		if old := p.state.Load(); p.state.CompareAndSwap(old, f(old)) {
			return old
		}
	}
}

// polled counts a round of a poller and reports whether the port is its to
// read.
func (p *pollers) polled() (aside bool) { return p.state.Add(1)&asideFlag != 0 }

// armed gives the port back to the goroutine if pollers have it, since one of
// them is about to sleep. The goroutine must be roused if armed returns true.
func (p *pollers) armed() (rouse bool) {
	old := p.change(func(old uint64) uint64 {
		if old&lentFlag != 0 {
			return old // who sleeps there comes back at once, or the goroutine soon
		}
		return recallFlag
	})
	return old&(asideFlag|lentFlag) == asideFlag
}

// recall gives the port back to the goroutine from whoever has it, but a
// thread that sleeps there. The goroutine must be roused if recall returns
// true; else who is at the port must be woken.
func (p *pollers) recall() (rouse bool) {
	old := p.change(func(old uint64) uint64 {
		if old&guestFlag != 0 {
			return old
		}
		return recallFlag
	})
	return old&(asideFlag|guestFlag) == asideFlag
}

// enter lets a thread that is about to sleep do so at the port, if the
// goroutine has stepped aside and no other one is there.
func (p *pollers) enter() bool {
	old := p.change(func(old uint64) uint64 {
		switch {
		case old&guestFlag != 0:
			return old
		case old&asideFlag == 0:
			return old | wantFlag
		default:
			return old | lentFlag | guestFlag | cameFlag
		}
	})
	return old&(asideFlag|guestFlag) == asideFlag
}

// leave ends what enter began. If others sleep elsewhere, the port is the
// goroutine's again, which must be roused if leave returns true.
func (p *pollers) leave(others bool) (rouse bool) {
	old := p.change(func(old uint64) uint64 {
		if others {
			return recallFlag
		}
		return old &^ (guestFlag | deepFlag)
	})
	return others || old&deepFlag != 0
}

// offer is called by the goroutine when it has woken a program: it steps aside
// if a thread wanted to sleep at the port.
func (p *pollers) offer() bool {
	old := p.change(func(old uint64) uint64 {
		if old&wantFlag == 0 {
			return old
		}
		return asideFlag | lentFlag
	})
	return old&wantFlag != 0
}

// aside reports whether nobody waits at the port: the goroutine has stepped
// aside for threads that poll.
func (p *pollers) aside() bool { return p.state.Load()&(asideFlag|guestFlag) == asideFlag }

// attended reports whether the goroutine has stepped aside for threads that
// poll, rather than for one that sleeps at the port now and then.
func (p *pollers) attended() bool { return p.state.Load()&(asideFlag|lentFlag|guestFlag) == asideFlag }

// away reports whether the goroutine has stepped aside for threads that poll,
// and none has for a while, nor posted.
func (p *pollers) away(now clock.Instant) bool {
	return p.attended() && now.Sub(clock.Instant(p.latest.Load())) >= awayTime
}

// distrust gives the port back to the goroutine, for a time in which it does not
// step aside again for threads that poll.
func (p *pollers) distrust(now clock.Instant) {
	again := p.avoid
	if p.avoid = leastAlone; now.Sub(p.alone) < again {
		p.avoid = min(2*again, mostAlone)
	}
	p.alone = now.Add(p.avoid)
	p.change(func(uint64) uint64 { return recallFlag })
}

// guest reports whether a thread sleeps at the port.
func (p *pollers) guest() bool { return p.state.Load()&guestFlag != 0 }

// look decides for the goroutine whether it steps aside, or stays so, and for
// how long; 0 means that the port is its to read.
func (p *pollers) look(now clock.Instant) (aside time.Duration) {
	for {
		old, next := p.state.Load(), uint64(0)
		switch aside = p.judge(now, old); {
		case aside == forever:
			next = asideFlag | deepFlag | old&(lentFlag|guestFlag)
		case aside > 0:
			next = asideFlag | old&guestFlag
			if old&(guestFlag|cameFlag) != 0 {
				next |= lentFlag // else it is aside for who polls
			}
		default:
			next = old & wantFlag
		}
		// A recall meanwhile makes this fail, a later one sees the flag.
		if p.state.CompareAndSwap(old, next) {
			return aside
		}
	}
}

// judge is look for a given state.
func (p *pollers) judge(now clock.Instant, state uint64) (aside time.Duration) {
	polls, wasAside := state&^allFlags, state&asideFlag != 0
	switch {
	case state&recallFlag != 0:
		p.polling = false
		return 0
	case state&(guestFlag|cameFlag) != 0:
		p.polling = false
		return lent(state&guestFlag != 0, state&cameFlag != 0)
	case now < p.alone:
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

// lent is judge for a goroutine that is aside for a thread that sleeps: one is
// at the port now, or has come since the last look.
func lent(guest, came bool) (aside time.Duration) {
	switch {
	case guest && !came:
		return forever
	case guest:
		return lentAside
	default:
		return leastAside
	}
}
