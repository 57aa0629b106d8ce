package driver

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/lock"
)

// Plane is the control plane of an adapter. But for Handed and Owes, the caller runs it.
type Plane interface {
	// SetGuard sets how the plane enters the shard. It is called before all others.
	SetGuard(g hca.Guard)
	// Handed reports whether the shard has handed something over. Any goroutine may call it.
	Handed() bool
	// Run processes what the shard has handed over.
	Run(now clock.Instant)
	// Expires returns when Expire is next needed; clock.Never when idle.
	Expires() clock.Instant
	// Expire fires the timers that are due.
	Expire(now clock.Instant)
	// Owes reports whether MADs wait to be sent. Any goroutine may call it.
	Owes() bool
}

// noPlane is the control plane of an adapter that has none.
type noPlane struct{}

func (noPlane) SetGuard(hca.Guard)     {}
func (noPlane) Handed() bool           { return false }
func (noPlane) Run(clock.Instant)      {}
func (noPlane) Expires() clock.Instant { return clock.Never }
func (noPlane) Expire(clock.Instant)   {}
func (noPlane) Owes() bool             { return false }

// control is the control plane of the adapter. The thread that holds its lock runs it, and
// enters the shard for single steps. A thread that has received packets runs it only after it
// has left the shard, and only if no other thread holds it: otherwise that thread processes
// what the shard has handed over before it is done.
type control struct {
	plane Plane

	due  atomic.Int64 // clock.Instant of the next timer, as of the last release
	late atomic.Bool  // the timer is due, and the packets for which it may wait have been read
	told atomic.Bool  // the end of the device is known to all
	owes atomic.Bool  // the thread that holds the shard has to send for it

	mu      lock.Mutex[lock.Control] // guards the control plane and what follows
	reached bool                     // the shard's thread holds mu; see Reach
	called  bool                     // a call of Control runs
	entered bool                     // the holder has entered the shard
	fired   bool                     // the holder has fired a late timer
}

// deadline returns when the next timer is due that no thread fires yet. Any thread may call it.
func (c *control) deadline() clock.Instant {
	if c.late.Load() {
		return clock.Never
	}
	return clock.Instant(c.due.Load())
}

// publish publishes the next deadline, and reports whether the goroutine may wait beyond it: it
// is earlier than the last one, or the goroutine has left a late one to this thread.
func (c *control) publish() (earlier bool) {
	due := c.plane.Expires()
	last := clock.Instant(c.due.Swap(int64(due)))
	return due < last || c.fired && due != clock.Never
}

// Control runs f as the thread of the control plane, and sends the resulting packets or leaves
// that to the thread that holds the shard. First it processes what the shard has handed over.
// It blocks until no other thread runs the control plane; the data path does not stop
// meanwhile. f must not call Control or Do. Errors are those of Do.
func (d *Driver) Control(f func(now clock.Instant)) error {
	if c := &d.control; !c.mu.TryLock() {
		d.queued.Add(1)
		c.mu.Lock()
		d.queued.Add(-1)
	}
	err := d.inControl(f, true)
	d.attend(true)
	return err
}

// inControl is Control after the lock was taken. It unlocks. With send false, the caller sends
// later.
func (d *Driver) inControl(f func(now clock.Instant), send bool) error {
	c := &d.control
	defer c.mu.Unlock()
	c.entered, c.fired = false, false
	err := d.work(f)
	if earlier := c.publish(); earlier || c.entered || c.plane.Owes() {
		if dead := d.sendControl(send); err == nil {
			err = dead
		}
	}
	d.tell()
	return err
}

// sendControl sends what the control plane leaves to send, if send is true, and wakes the
// goroutine if it waits wrongly. If another thread holds the shard, that one does both before
// it unlocks.
func (d *Driver) sendControl(send bool) error {
	if !d.mu.TryLock() {
		d.control.owes.Store(true)
		if !d.mu.TryLock() {
			return nil
		}
	}
	defer func() { _ = d.release(recover()) }()
	if d.dead == nil && send {
		d.transmit(d.Now())
	}
	return d.dead
}

// work runs the control plane, and then f unless it is nil.
func (d *Driver) work(f func(now clock.Instant)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = d.fail(fmt.Errorf("%w: %v\n%s", ErrDead, r, debug.Stack()))
		}
	}()
	if dead := d.ended.Load(); dead != nil {
		return *dead
	}
	c, now := &d.control, d.Now()
	c.plane.Run(now)
	if c.late.Swap(false) {
		c.fired = true
		c.plane.Expire(now)
	}
	if f != nil {
		d.sendWaiting(0)
		c.called = true
		defer func() { c.called = false }()
		f(now)
	}
	return nil
}

// fail is die for a thread that is not in the shard. It returns why the device is dead.
func (d *Driver) fail(cause error) error {
	d.mu.Lock()
	d.die(cause)
	dead := d.dead
	d.mu.Unlock()
	return dead
}

// tell reports a failure of the device, once.
func (d *Driver) tell() {
	if d.failed.Load() && !d.control.told.Swap(true) {
		d.fatal(*d.ended.Load())
	}
}

// attends reports whether the control plane has something to do for the shard.
func (d *Driver) attends() bool {
	c := &d.control
	return (c.plane.Handed() || c.late.Load() || d.failed.Load()) && !c.told.Load()
}

// attend runs the control plane for the shard, if no other thread holds it, and sends the
// resulting packets unless the caller does that. The caller is not in the shard. It leaves to
// the goroutine what keeps arriving meanwhile.
func (d *Driver) attend(send bool) {
	for range releaseRounds {
		if !d.attends() || !d.control.mu.TryLock() {
			return
		}
		_ = d.inControl(nil, send) // the next call returns the error of a dead device
	}
	if d.attends() {
		d.recall()
	}
}

// Enter runs a step in the shard. The caller runs the control plane, and sends what it leaves
// to send when it is done.
func (d *Driver) Enter(step func() error) (err error) {
	if d.control.reached {
		return step()
	}
	c := &d.control
	c.entered = true
	d.lock()
	defer func() {
		d.entered = true
		if dead := d.release(recover()); dead != nil {
			err = dead
		}
	}()
	if d.dead != nil {
		return d.dead
	}
	if c.called {
		d.sendOwed(d.Now())
	}
	return step()
}

// Reach runs a step of the control plane on the shard's thread, which cannot wait for another
// thread that runs it: then Reach reports false.
func (d *Driver) Reach(step func()) bool {
	c := &d.control
	if !c.mu.TryLock() {
		return false
	}
	c.reached = true
	defer func() {
		c.reached = false
		c.publish()
		c.mu.Unlock()
	}()
	step()
	return true
}
