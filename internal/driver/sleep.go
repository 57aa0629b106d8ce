package driver

import (
	"context"
	"runtime"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// Sleeper says what ends the sleep of a thread.
type Sleeper struct {
	// Awake reports that the thread has to wake. It is called often, and without the shard.
	Awake func() bool
	// FDs are descriptors of which one ends the sleep when it is readable, which Ready reports by a
	// system call; -1 for none. Without Ready there are none.
	FDs   [2]int
	Ready func() bool
	// Limit is that of the sleep; negative for none.
	Limit time.Duration
	// Key is set for a thread of a program in C, and tells such threads apart. Go's scheduler cannot
	// run goroutines on it without handing over to another thread and back.
	Key uintptr
	// A Sleeper with a Key has these, too: Yield lets other threads of the host run, and Usage returns
	// what the thread has used.
	Yield func()
	Usage func() Usage
	// Elsewhere sleeps if the thread cannot do so at the port, for at most left, if that is not
	// negative, and reports whether something other than the time ended the sleep. Without a Key it
	// is called at most once.
	Elsewhere func(left time.Duration) bool
}

// readyTime is how long arrivals may keep a thread at the port from looking at its descriptors.
const readyTime = 10 * time.Microsecond

// Sleep sleeps until awake returns true, ctx has ended, or the device is gone. If no
// other thread sleeps at the port, the caller does, and handles arrivals itself, so
// that no other thread has to wake it. Otherwise it sleeps by calling elsewhere, once.
// It may return early.
func (d *Driver) Sleep(ctx context.Context, awake func() bool, elsewhere func()) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, d.first.Wake)()
	}
	d.SleepOn(&Sleeper{
		Awake: func() bool { return awake() || ctx.Err() != nil }, FDs: none, Limit: -1,
		Elsewhere: func(time.Duration) bool { elsewhere(); return true },
	})
}

// none stands for no descriptors.
var none = [2]int{-1, -1}

// SleepOn is Sleep with a limit, and with descriptors that end the sleep.
func (d *Driver) SleepOn(s *Sleeper) {
	now, until := d.Now(), clock.Never
	if s.Limit >= 0 {
		until = now.Add(s.Limit)
	}
	if s.Key == 0 {
		s.once(d, until)
		return
	}
	d.company.back(s)
	defer func() { d.company.left(s, d.Now()) }()
	if d.company.expects(s, now) {
		d.pollers.pass()
		s.sendFirst(d)
		if s.Awake() || s.briefly(d, until) {
			return
		}
	}
	for s.once(d, until) == handsOver {
		if s.briefly(d, until) {
			return
		}
	}
}

// ending says why the sleep of a thread at the port ends.
type ending uint8

const (
	awake     ending = iota // the thread has to wake
	dead                    // the device is gone
	handsOver               // the thread has woken others, which come to the port when they sleep
)

// once sleeps at the port, or elsewhere if another thread has it.
func (s *Sleeper) once(d *Driver, until clock.Instant) ending {
	if !d.pollers.enter() {
		s.sendFirst(d)
		s.away(d, rest(d.Now(), until))
		return awake
	}
	d.first.WakeOn(s.FDs)
	how := d.sleepAtPort(s, until)
	d.first.WakeOn(none)
	if d.pollers.leave() {
		d.unpark()
	}
	if how == dead {
		s.away(d, rest(d.Now(), until))
	}
	return how
}

// away sleeps away from the port, and reports whether something other than the time ended
// the sleep.
func (s *Sleeper) away(d *Driver, left time.Duration) (woken bool) {
	d.company.elsewhere.Add(1)
	defer d.company.elsewhere.Add(-1)
	return s.Elsewhere(left)
}

// briefly sleeps elsewhere for at most companyTime, while another thread is expected to take the port.
// It returns false if the sleep has to go on.
func (s *Sleeper) briefly(d *Driver, until clock.Instant) (over bool) {
	left := companyTime
	if most := rest(d.Now(), until); most >= 0 {
		left = min(left, most)
	}
	over = s.away(d, left) || s.Awake() || d.Now() >= until
	d.company.judge(over || d.pollers.hasSleeper())
	return over
}

// rest returns the time until an instant, negative if it never comes.
func rest(now, until clock.Instant) time.Duration {
	if until == clock.Never {
		return -1
	}
	return max(until.Sub(now), 0)
}

// sendFirst sends waiting posts of a thread that will not sleep at the port.
func (s *Sleeper) sendFirst(d *Driver) {
	if !d.coalesce.waiting.Load() {
		return
	}
	s.lock(d)
	defer func() { _ = d.release(recover()) }()
	if d.dead == nil {
		now := d.Now()
		d.coalesce.slept(now)
		d.transmit(now)
	}
}

// sleepAtPort takes the role of the goroutine at the port.
func (d *Driver) sleepAtPort(s *Sleeper, until clock.Instant) ending {
	for looked := d.Now(); ; {
		next, alive := d.beforeWait(s, until)
		switch {
		case !alive:
			return dead
		case s.Awake():
			return awake
		case d.await(next) != nil:
			return dead
		}
		// Packets that this makes us owe are sent with the program's next post, in one
		// datagram, or by the goroutine if the program is slow.
		n, now, others := d.afterWait(s)
		if s.Awake() || now >= until {
			return awake
		}
		if s.Ready != nil && (n == 0 && next.sleeps() || now.Sub(looked) >= readyTime) {
			if s.Ready() {
				return awake
			}
			looked = now
		}
		switch {
		case others && s.Key == 0:
			runtime.Gosched() // the woken program may need this thread
		case others && d.company.comes():
			return handsOver
		}
	}
}

// beforeWait sends and decides how to wait, at most until an instant.
func (d *Driver) beforeWait(s *Sleeper, until clock.Instant) (next wait, alive bool) {
	s.lock(d)
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return wait{}, false
	}
	now := d.Now()
	d.bySleeper = true
	d.coalesce.slept(now)
	next = d.pause(now, d.transmit(now))
	if left := until.Sub(now); until != clock.Never && next.sleeps() && (next.timeout < 0 || next.timeout > left) {
		next.timeout = max(left, time.Microsecond)
	}
	return next, d.dead == nil
}

// afterWait reads arrived datagrams and fires due timers. It returns the number of datagrams.
func (d *Driver) afterWait(s *Sleeper) (n int, now clock.Instant, woke bool) {
	s.lock(d)
	defer func() { _ = d.releaseFor(recover(), false) }()
	now = d.Now()
	if d.dead == nil {
		d.bySleeper = true
		n, now = d.receive(now)
		woke = d.woke
		d.awake = true // the caller looks again or leaves the port
	}
	return n, now, woke
}
