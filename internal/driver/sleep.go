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
	// Foreign is set for a thread of a program in C. Go's scheduler cannot run goroutines on it
	// without handing over to another thread and back.
	Foreign bool
	// Elsewhere sleeps, once, if the thread cannot do so at the port. left is the rest of Limit.
	Elsewhere func(left time.Duration)
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
		Elsewhere: func(time.Duration) { elsewhere() },
	})
}

// none stands for no descriptors.
var none = [2]int{-1, -1}

// SleepOn is Sleep with a limit, and with descriptors that end the sleep.
func (d *Driver) SleepOn(s *Sleeper) {
	until := clock.Never
	if s.Limit >= 0 {
		until = d.Now().Add(s.Limit)
	}
	if !d.pollers.enter() {
		d.sendBeforeSleep()
		s.Elsewhere(s.Limit)
		return
	}
	d.first.WakeOn(s.FDs)
	alive := d.sleepAtPort(s, until)
	d.first.WakeOn(none)
	if d.pollers.leave() {
		d.unpark()
	}
	if !alive {
		left := time.Duration(-1)
		if until != clock.Never {
			left = max(until.Sub(d.Now()), 0)
		}
		s.Elsewhere(left)
	}
}

// sendBeforeSleep sends waiting posts of a thread that will not sleep at the port.
func (d *Driver) sendBeforeSleep() {
	if !d.coalesce.waiting.Load() {
		return
	}
	d.lock()
	defer func() { _ = d.release(recover()) }()
	if d.dead == nil {
		d.transmit(d.Now())
	}
}

// sleepAtPort takes the role of the goroutine at the port.
func (d *Driver) sleepAtPort(s *Sleeper, until clock.Instant) (alive bool) {
	for looked := d.Now(); ; {
		next, alive := d.beforeWait(until)
		switch {
		case !alive:
			return false
		case s.Awake():
			return true
		case d.await(next) != nil:
			return false
		}
		// Packets that this makes us owe are sent with the program's next post, in one
		// datagram, or by the goroutine if the program is slow.
		n, now, others := d.afterWait()
		if s.Awake() || now >= until {
			return true
		}
		if s.Ready != nil && (n == 0 && next.sleeps() || now.Sub(looked) >= readyTime) {
			if s.Ready() {
				return true
			}
			looked = now
		}
		if others && !s.Foreign {
			runtime.Gosched() // the woken program may need this thread
		}
	}
}

// beforeWait sends and decides how to wait, at most until an instant.
func (d *Driver) beforeWait(until clock.Instant) (next wait, alive bool) {
	d.mu.Lock()
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
func (d *Driver) afterWait() (n int, now clock.Instant, woke bool) {
	d.mu.Lock()
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
