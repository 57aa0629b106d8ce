package driver

import (
	"context"
	"runtime"
)

// Sleep has the caller sleep until awake reports true, ctx has ended, or the
// device is gone. It sleeps at the port, if nobody else does, and sees to what
// arrives itself: so nothing is handed from thread to thread. Else it sleeps
// by calling elsewhere, once. It may return early.
func (d *Driver) Sleep(ctx context.Context, awake func() bool, elsewhere func()) {
	d.sleep(ctx, -1, awake, elsewhere)
}

// SleepOn is Sleep until awake reports true, for which it is asked when a
// descriptor can be read, too.
func (d *Driver) SleepOn(fd int, awake func() bool, elsewhere func()) {
	d.sleep(context.Background(), fd, awake, elsewhere)
}

func (d *Driver) sleep(ctx context.Context, fd int, awake func() bool, elsewhere func()) {
	if !d.pollers.enter() {
		d.sleepers.Add(1)
		// Who was at the port may have left before it could know of the caller.
		entered := d.pollers.enter()
		if !entered {
			elsewhere()
		}
		if d.sleepers.Add(-1); !entered {
			return
		}
	}
	d.port.WakeOn(fd)
	alive := d.sleepAtPort(ctx, awake)
	d.port.WakeOn(-1)
	if d.pollers.leave(d.sleepers.Load() > 0) {
		d.rouse()
	}
	if !alive {
		elsewhere()
	}
}

// sleepAtPort does at the port what the goroutine does there.
func (d *Driver) sleepAtPort(ctx context.Context, awake func() bool) (alive bool) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, d.port.Wake)()
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
		// What this makes us owe goes with what the program posts next, in one
		// datagram; or with what the goroutine sends, if the program is slow.
		others := d.afterWait()
		if awake() {
			return true
		}
		if others {
			runtime.Gosched() // whom this woke may need this thread
		}
	}
}

// beforeWait sends what there is and decides how to wait.
func (d *Driver) beforeWait() (next wait, alive bool) {
	d.mu.Lock()
	defer func() { _ = d.release(recover()) }()
	if d.dead != nil {
		return wait{}, false
	}
	now := d.now()
	d.guest = true
	next = d.pause(now, d.transmit(now))
	return next, d.dead == nil
}

// afterWait takes what has arrived and fires the timers that are due.
func (d *Driver) afterWait() (woke bool) {
	d.mu.Lock()
	defer func() { _ = d.release(recover()) }()
	if d.dead == nil {
		d.guest = true
		d.receive(d.now())
		woke = d.woke
		d.awake = true // the caller looks again, or leaves
	}
	return woke
}
