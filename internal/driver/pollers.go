package driver

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// The time and the number of rounds after which polling is sustained, and the goroutine
// leaves the port to it. A program that sleeps polls only once before it arms a
// completion queue and once after.
const (
	sustained      = 200 * time.Microsecond
	sustainedPolls = 8
)

// The goroutine steps aside for a quarter of the time that the polling has lasted,
// within these bounds, before it checks for polling again: a packet that arrives just
// after polling stops waits at most this long.
const (
	leastAside = 50 * time.Microsecond
	mostAside  = time.Millisecond
)

// sleeperAside is how long the goroutine stays aside while a sleeping thread waits at the
// port instead. It is not forever at first: while such threads come and go, the
// goroutine returns by itself, and they need not wake it.
const sleeperAside = 200 * time.Microsecond

// A thread that has slept at the port and runs its program usually comes back. The goroutine
// waits for it for leastAside, then twice as long, and so on mostAbsences times in all, before it
// takes the port. Packets wait for that long at most while the program computes.
const mostAbsences = 3

// A program may poll for a completion and then, without polling, watch its memory for
// the peer's writes. Packets that arrive meanwhile wait in the port until the goroutine
// looks. If it finds some, and no thread has polled or posted for awayTime, it stays at
// the port: for leastAlone at first, and up to mostAlone if this is repeated.
//
// Meanwhile such a program keeps its processor, and perhaps shares it with the goroutine's
// thread. After a yield, that thread runs again only at the end of the program's time slice, but
// an arrival wakes a sleeping thread at once. So the goroutine sleeps between
// arrivals. If it finds the lock taken, a program's thread is just using the adapter and
// probably polls next, so that it reads the arrivals itself: the goroutine leaves the port to it
// for awayTime, at most mostMissed times in a row. Waiting for the lock would take as long,
// because Go's runtime would move the goroutine to another thread.
//
// All this lasts for watchedTime after each time that the goroutine found packets at the port,
// and no thread had polled or posted for absentTime. A program that keeps polling or posting
// gains nothing from it.
const (
	awayTime   = 50 * time.Microsecond
	leastAlone = time.Millisecond
	mostAlone  = 64 * time.Millisecond
	mostMissed = 4

	absentTime  = 5 * time.Microsecond
	watchedTime = time.Millisecond
)

// forever is how long the goroutine stays aside after one thread has slept at the port
// for long.
const forever = time.Duration(math.MaxInt64)

// pollers decides which thread reads the port: the driver's goroutine, threads that
// poll completion queues, or a thread that sleeps until there is a completion: it can
// sleep at the port and handle arrivals itself. If two read the port, each arrival
// would wake a thread although the other has already taken it, and both would contend
// for the shard. So the goroutine steps aside for sustained polling, and for a sleeping
// thread. It returns when a completion queue is armed, because its owner is about to
// sleep, or if no thread has polled or slept at the port meanwhile.
type pollers struct {
	state atomic.Uint64 // rounds of other threads since the last look, and the flags below

	latest atomic.Int64 // clock.Instant of the last of these rounds, or of a post

	// Used by the goroutine only.
	polling bool          // other threads polled before the last looks
	polls   uint64        // rounds of that polling so far
	since   clock.Instant // first look that found rounds
	last    clock.Instant // last look that found rounds

	lends    bool          // the last look left the port to threads that sleep there
	absences int           // looks in a row that found none of them there; mostAbsences if none has come yet
	avoid    time.Duration // length of the last period alone at the port
	missed   int           // times in a row that it left the port to the thread with the lock

	alone clock.Instant // time until which it does not step aside for polling

	watched atomic.Int64 // clock.Instant until which a program is considered to watch its memory
}

// Flags of the state of pollers.
const (
	asideFlag         uint64 = 1 << (63 - iota) // the goroutine has stepped aside
	recallFlag                                  // it was called back since the last look
	wantFlag                                    // a thread would have slept at the port
	lentToSleeperFlag                           // the goroutine is aside for a thread that sleeps at the port
	sleeperFlag                                 // a thread sleeps at the port now
	mustWakeFlag                                // that thread must wake the goroutine when it leaves
	cameFlag                                    // a thread has come to the port since the last look
	allFlags          = asideFlag | recallFlag | wantFlag | lentToSleeperFlag | sleeperFlag | mustWakeFlag | cameFlag
)

// change replaces the state by f(state), and returns the old state.
func (p *pollers) change(f func(old uint64) uint64) uint64 {
	for {
		if old := p.state.Load(); p.state.CompareAndSwap(old, f(old)) {
			return old
		}
	}
}

// polled counts a round of a poller and reports whether pollers have the port.
func (p *pollers) polled() (aside bool) { return p.state.Add(1)&asideFlag != 0 }

// armed returns the port to the goroutine if pollers have it, because one of them is
// about to sleep. If armed returns true, the caller must unpark the goroutine.
func (p *pollers) armed() (unpark bool) {
	old := p.change(func(old uint64) uint64 {
		if old&lentToSleeperFlag != 0 {
			return old // a thread returns to the port at once, or the goroutine soon
		}
		return recallFlag | old&wantFlag // the thread that arms the queue need not be the one that sleeps
	})
	return old&(asideFlag|lentToSleeperFlag) == asideFlag
}

// recall returns the port to the goroutine, unless a thread sleeps there. If recall
// returns true, the caller must unpark the goroutine; otherwise it must wake the thread
// at the port.
func (p *pollers) recall() (unpark bool) {
	old := p.change(func(old uint64) uint64 {
		if old&sleeperFlag != 0 {
			return old
		}
		return recallFlag
	})
	return old&(asideFlag|sleeperFlag) == asideFlag
}

// enter lets a thread sleep at the port, if the goroutine has stepped aside and no
// other thread sleeps there.
func (p *pollers) enter() bool {
	old := p.change(func(old uint64) uint64 {
		switch {
		case old&sleeperFlag != 0:
			return old
		case old&asideFlag == 0:
			return old | wantFlag
		default:
			return old | lentToSleeperFlag | sleeperFlag | cameFlag
		}
	})
	return old&(asideFlag|sleeperFlag) == asideFlag
}

// pass records that a thread leaves the port to others that will sleep there.
func (p *pollers) pass() {
	p.change(func(old uint64) uint64 {
		if old&lentToSleeperFlag == 0 {
			return old
		}
		return old | cameFlag
	})
}

// leave undoes enter. If leave returns true, the caller must unpark the goroutine. Other
// threads may sleep elsewhere: the next one that goes to sleep takes the port, or the
// goroutine does when sleeperAside ends.
func (p *pollers) leave() (unpark bool) {
	old := p.change(func(old uint64) uint64 { return old &^ (sleeperFlag | mustWakeFlag) })
	return old&mustWakeFlag != 0
}

// offer makes the goroutine, which has just woken a program, step aside if a thread
// wanted to sleep at the port.
func (p *pollers) offer() bool {
	old := p.change(func(old uint64) uint64 {
		if old&wantFlag == 0 {
			return old
		}
		return asideFlag | lentToSleeperFlag
	})
	p.absences = mostAbsences
	return old&wantFlag != 0
}

// aside reports whether no thread waits at the port: the goroutine has stepped aside,
// and no thread sleeps there.
func (p *pollers) aside() bool { return p.state.Load()&(asideFlag|sleeperFlag) == asideFlag }

// attended reports whether the goroutine has stepped aside for threads that poll, and
// not for a thread that sleeps at the port.
func (p *pollers) attended() bool {
	return p.state.Load()&(asideFlag|lentToSleeperFlag|sleeperFlag) == asideFlag
}

// attendance returns who reads the port.
func (p *pollers) attendance() attendance {
	switch p.state.Load() & (asideFlag | lentToSleeperFlag | sleeperFlag) {
	case asideFlag:
		return byPollers
	case asideFlag | lentToSleeperFlag:
		return bySleeper
	default:
		return byGoroutine
	}
}

// away reports whether the goroutine has stepped aside for threads that poll, but none
// has polled or posted for awayTime.
func (p *pollers) away(now clock.Instant) bool {
	return p.attended() && now.Sub(clock.Instant(p.latest.Load())) >= awayTime
}

// distrust returns the port to the goroutine, unless a thread has come meanwhile to sleep there. For
// some time the goroutine does not step aside again for threads that poll.
func (p *pollers) distrust(now clock.Instant) {
	again := p.avoid
	if p.avoid = leastAlone; now.Sub(p.alone) < again {
		p.avoid = min(2*again, mostAlone)
	}
	p.alone = now.Add(p.avoid)
	p.watched.Store(int64(now.Add(watchedTime)))
	p.change(func(old uint64) uint64 {
		if old&sleeperFlag != 0 {
			return old
		}
		return recallFlag
	})
}

// found records that the goroutine has found packets at the port.
func (p *pollers) found(now clock.Instant) {
	if now < p.alone && now.Sub(clock.Instant(p.latest.Load())) >= absentTime {
		p.watched.Store(int64(now.Add(watchedTime)))
	}
}

// isWatched reports whether a program is considered to watch its memory instead of polling. Any
// thread may call it.
func (p *pollers) isWatched(now clock.Instant) bool { return now < clock.Instant(p.watched.Load()) }

// miss records that the goroutine found the lock taken, and reports whether it leaves the port
// to the thread that has the lock.
func (p *pollers) miss(now clock.Instant) bool {
	if !p.isWatched(now) || p.missed == mostMissed {
		return false
	}
	p.missed++
	return true
}

// hasSleeper reports whether a thread sleeps at the port.
func (p *pollers) hasSleeper() bool { return p.state.Load()&sleeperFlag != 0 }

// look returns how long the goroutine steps or stays aside; 0 means that it reads the
// port.
func (p *pollers) look(now clock.Instant) (aside time.Duration) {
	for {
		old, next := p.state.Load(), uint64(0)
		switch aside = p.judge(now, old); {
		case aside == forever:
			next = asideFlag | mustWakeFlag | old&(lentToSleeperFlag|sleeperFlag)
		case aside > 0:
			next = asideFlag | old&sleeperFlag
			if p.lends {
				next |= lentToSleeperFlag // otherwise it is aside for pollers
			}
		default:
			next = old & wantFlag
		}
		// A concurrent recall makes this fail; a later recall sees the flag.
		if p.state.CompareAndSwap(old, next) {
			return aside
		}
	}
}

// judge is look for a given state.
func (p *pollers) judge(now clock.Instant, state uint64) (aside time.Duration) {
	polls, wasAside := state&^allFlags, state&asideFlag != 0
	p.lends = false
	switch {
	case state&recallFlag != 0:
		p.polling = false
		return 0
	case state&(sleeperFlag|cameFlag) != 0 || state&lentToSleeperFlag != 0 && p.absences < mostAbsences:
		p.polling, p.lends = false, true
		return p.asideForSleepers(state&sleeperFlag != 0, state&cameFlag != 0)
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

// asideForSleepers is judge for threads that sleep at the port: sleeper means that one is there now,
// came that one has come since the last look.
func (p *pollers) asideForSleepers(sleeper, came bool) (aside time.Duration) {
	if came || sleeper {
		p.absences = 0
	}
	switch {
	case sleeper && !came:
		return forever
	case sleeper:
		return sleeperAside
	default:
		p.absences++
		return leastAside << (p.absences - 1)
	}
}
