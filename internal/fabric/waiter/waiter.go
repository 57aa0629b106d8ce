package waiter

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/fabric"
)

// Waiter sleeps for a port until something arrives, somebody calls Wake, or the
// port is closed. Wait is for one goroutine at a time, all else for any.
type Waiter struct {
	timer   *time.Timer   // used by Wait only
	arrived chan struct{} // holds a token after an arrival
	woken   chan struct{} // holds a token after Wake
	closing chan struct{} // closed by Shut
	closed  atomic.Bool
}

// New returns the waiter of a port that is open.
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
// with read set it is asked again after each arrival.
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
		case <-arrived: // perhaps of something received since: look again
		case <-w.woken:
			return nil
		case <-expired:
			return nil
		case <-w.closing:
			return fabric.ErrClosed
		}
	}
}

// Arrived says that there is something to receive.
func (w *Waiter) Arrived() { offer(w.arrived) }

// Wake ends the present or the next Wait.
func (w *Waiter) Wake() { offer(w.woken) }

// WakeOn does nothing: no descriptor is waited for.
func (w *Waiter) WakeOn(int) {}

// Shut ends every Wait with fabric.ErrClosed. It reports false if that was done
// before.
func (w *Waiter) Shut() bool {
	if w.closed.Swap(true) {
		return false
	}
	close(w.closing)
	return true
}

// Closed reports whether Shut was called; Closing closes then.
func (w *Waiter) Closed() bool { return w.closed.Load() }

// Closing returns a channel that Shut closes.
func (w *Waiter) Closing() <-chan struct{} { return w.closing }

// offer leaves a token in c unless one is there already.
func offer(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
