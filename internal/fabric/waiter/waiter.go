package waiter

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/fabric"
)

// Waiter sleeps for a port until a datagram arrives, Wake is called, or the
// port is closed. One goroutine at a time may call Wait; any may call the other
// methods.
type Waiter struct {
	timer   *time.Timer   // used by Wait only
	arrived chan struct{} // holds a token after an arrival
	woken   chan struct{} // holds a token after Wake
	closing chan struct{} // closed by Shut
	closed  atomic.Bool
}

// New returns the waiter of an open port.
func New() *Waiter {
	w := &Waiter{
		timer:   time.NewTimer(time.Hour),
		arrived: make(chan struct{}, 1),
		woken:   make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	w.timer.Stop()
	return w
}

// Wait implements fabric.Port. ready reports whether there is no need to wait;
// with read, it is called again after each arrival.
func (w *Waiter) Wait(timeout time.Duration, read bool, ready func() bool) error {
	if timeout == 0 {
		runtime.Gosched()
	}
	var expired <-chan time.Time
	if timeout >= 0 {
		w.timer.Reset(timeout)
		defer w.timer.Stop()
		expired = w.timer.C
	}
	arrived := w.arrived
	if !read {
		arrived = nil
	}
	for {
		if w.closed.Load() {
			return fabric.ErrClosed
		}
		if ready() {
			return nil
		}
		select {
		case <-arrived: // it may have been received since: check again
		case <-w.woken:
			return nil
		case <-expired:
			return nil
		case <-w.closing:
			return fabric.ErrClosed
		}
	}
}

// Arrived wakes Wait: there is a datagram to receive.
func (w *Waiter) Arrived() { offer(w.arrived) }

// Wake ends the current or the next Wait.
func (w *Waiter) Wake() { offer(w.woken) }

// WakeOn does nothing: this Wait does not wait for descriptors.
func (w *Waiter) WakeOn([2]int) {}

// Shut ends every Wait with fabric.ErrClosed. It reports false if it was
// already called.
func (w *Waiter) Shut() bool {
	if w.closed.Swap(true) {
		return false
	}
	close(w.closing)
	return true
}

// Closed reports whether Shut was called.
func (w *Waiter) Closed() bool { return w.closed.Load() }

// Closing returns a channel that Shut closes.
func (w *Waiter) Closing() <-chan struct{} { return w.closing }

// offer puts a token into c unless one is there.
func offer(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
