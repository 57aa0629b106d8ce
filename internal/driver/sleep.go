package driver

import (
	"context"
	"runtime"
)

// Sleep sleeps until awake returns true, ctx has ended, or the device is gone. If no
// other thread sleeps at the port, the caller does, and handles arrivals itself, so
// that no other thread has to wake it. Otherwise it sleeps by calling elsewhere, once.
// It may return early.
func (d *Driver) Sleep(ctx context.Context, awake func() bool, elsewhere func()) {
	d.sleep(ctx, -1, awake, elsewhere)
}

// SleepOn is Sleep without a context. It also calls awake when a descriptor becomes
// readable.
func (d *Driver) SleepOn(fd int, awake func() bool, elsewhere func()) {
	d.sleep(context.Background(), fd, awake, elsewhere)
}

func (d *Driver) sleep(ctx context.Context, fd int, awake func() bool, elsewhere func()) {
	if !d.pollers.enter() {
		d.sleepers.Add(1)
		// The thread at the port may have left before it could see the caller.
		entered := d.pollers.enter()
		if !entered {
			elsewhere()
		}
		if d.sleepers.Add(-1); !entered {
			return
		}
	}
	d.first.WakeOn(fd)
	alive := d.sleepAtPort(ctx, awake)
	d.first.WakeOn(-1)
	if d.pollers.leave(d.sleepers.Load() > 0) {
		d.unpark()
	}
	if !alive {
		elsewhere()
	}
}

// sleepAtPort takes the role of the goroutine at the port.
func (d *Driver) sleepAtPort(ctx context.Context, awake func() bool) (alive bool) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, d.first.Wake)()
	}
	for {
		next, alive := d.beforeWait()
		switch {
		case !alive:
			return false
		case awake() || ctx.Err() != nil:
			return true
		case d.await(next) != nil:
			return false
		}
		// Packets that this makes us owe are sent with the program's next post, in one
		// datagram, or by the goroutine if the program is slow.
		others := d.afterWait()
		if awake() {
			return true
		}
		if others {
			runtime.Gosched() // the woken program may need this thread
		}
	}
}

// beforeWait sends and decides how to wait.
func (d *Driver) beforeWait() (next wait, alive bool) {
	d.mu.Lock()
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return wait{}, false
	}
	now := d.Now()
	d.bySleeper = true
	next = d.pause(now, d.transmit(now))
	return next, d.dead == nil
}

// afterWait reads arrived datagrams and fires due timers.
func (d *Driver) afterWait() (woke bool) {
	d.mu.Lock()
	defer func() { _ = d.releaseFor(recover(), false) }()
	if d.dead == nil {
		d.bySleeper = true
		d.receive(d.Now())
		woke = d.woke
		d.awake = true // the caller looks again or leaves the port
	}
	return woke
}
