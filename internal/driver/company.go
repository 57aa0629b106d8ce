package driver

import (
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// One thread waits at the port. When it wakes another thread, it leaves the port: the woken thread takes
// it at its next sleep. A thread that goes to sleep while another runs its program leaves the port to
// that one. So a message wakes one thread instead of two, and arrivals accumulate and are handled
// together. This pays only if programs run briefly between two sleeps; a program that runs long would
// leave the port unread.

const (
	// companyTime bounds how long threads leave the port to others that run their programs.
	companyTime = 500 * time.Microsecond
	// briefTime is the processor time of a program that runs briefly.
	briefTime = 30 * time.Microsecond
	// sampled is how many sleeps pass between two measurements of that time.
	sampled = 16
)

// Programs run briefly while the score is positive. A measurement adds 1, up to mostBrief, if the
// program ran for less than briefTime without blocking; otherwise it subtracts notBrief. If no thread
// comes within companyTime, the score falls to leastBrief.
const (
	mostBrief  = 16
	notBrief   = 8
	leastBrief = -16
)

// absentees is the number of threads that company remembers.
const absentees = 16

// absentee is a thread that runs its program.
type absentee struct {
	key atomic.Uintptr // 0: none
	at  atomic.Int64   // clock.Instant at which it left

	measures           atomic.Bool // what follows is its usage at that time
	processor, blocked atomic.Int64
}

// used reports whether the slot holds a thread that left less than companyTime ago.
func (a *absentee) used(now clock.Instant) bool {
	return a.key.Load() != 0 && now.Sub(clock.Instant(a.at.Load())) < companyTime
}

// Usage is what a thread has used so far.
type Usage struct {
	Processor time.Duration
	Blocked   int64 // times that it blocked
}

// company records which threads run their programs, and when the port was read. Threads change it
// without a lock: it only guides where they sleep.
type company struct {
	elsewhere atomic.Int32 // threads that sleep, but not at the port
	score     atomic.Int32
	sleeps    atomic.Uint32
	read      atomic.Int64 // clock.Instant of the last read of the ports
	absent    [absentees]absentee
}

// brief reports whether programs run briefly.
func (c *company) brief() bool { return c.score.Load() > 0 }

// left records that a thread goes to run its program.
func (c *company) left(s *Sleeper, now clock.Instant) {
	at, alone := &c.absent[int(s.Key>>4)%absentees], c.elsewhere.Load() == 0
	for i := range c.absent {
		if !c.absent[i].used(now) {
			at = &c.absent[i]
			break
		}
		alone = false
	}
	measures := !alone && (c.score.Load() < mostBrief || c.sleeps.Add(1)%sampled == 0)
	if measures {
		u := s.Usage()
		at.processor.Store(int64(u.Processor))
		at.blocked.Store(u.Blocked)
	}
	at.measures.Store(measures)
	at.at.Store(int64(now))
	at.key.Store(s.Key)
}

// back records that a thread comes back to sleep.
func (c *company) back(s *Sleeper) {
	for i := range c.absent {
		a := &c.absent[i]
		if a.key.Load() != s.Key {
			continue
		}
		if a.measures.Load() {
			u := s.Usage()
			c.measured(int64(u.Processor)-a.processor.Load() < int64(briefTime) && u.Blocked == a.blocked.Load())
		}
		a.key.CompareAndSwap(s.Key, 0)
		return
	}
}

// measured records whether a program has run briefly.
func (c *company) measured(brief bool) {
	old := c.score.Load()
	now := min(old+1, mostBrief)
	if !brief {
		now = max(old-notBrief, leastBrief)
	}
	c.score.CompareAndSwap(old, now)
}

// expects reports whether a thread that is about to sleep leaves the port to another, which runs its
// program. Nobody leaves a port that was not read for companyTime: threads that other descriptors wake
// might leave it to each other for ever.
func (c *company) expects(s *Sleeper, now clock.Instant) bool {
	if !c.brief() || now.Sub(clock.Instant(c.read.Load())) >= companyTime {
		return false
	}
	for i := range c.absent {
		if a := &c.absent[i]; a.used(now) && a.key.Load() != s.Key {
			return true
		}
	}
	return false
}

// comes reports whether a thread at the port, which has woken another, leaves the port: others sleep
// elsewhere, and programs run briefly.
func (c *company) comes() bool { return c.elsewhere.Load() > 0 && c.brief() }

// judge records whether a thread came to the port within companyTime.
func (c *company) judge(came bool) {
	if !came {
		c.score.Store(leastBrief)
	}
}

// lockTries is how often a thread of a program in C tries to take the lock before it waits for it.
const lockTries = 8

// lock is Driver.lock for a thread that sleeps. To wait for a lock of Go costs a thread of a program in C
// several switches between threads, so it first lets others run, and tries again.
func (s *Sleeper) lock(d *Driver) {
	for i := 0; s.Yield != nil && i < lockTries; i++ {
		if d.mu.TryLock() {
			return
		}
		s.Yield()
	}
	d.lock()
}
