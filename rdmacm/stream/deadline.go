package stream

import (
	"time"

	"github.com/softhca/softhca/internal/lock"
)

// deadline is an instant at which calls stop waiting. It can be changed while they
// wait.
type deadline struct {
	mu      lock.Mutex[lock.Deadline] // guards what follows
	timer   *time.Timer
	expired chan struct{} // closed once the instant has passed
}

func (d *deadline) init() { d.expired = make(chan struct{}) }

// set changes the deadline; the zero time is never. Calls that wait on an open channel
// of wait then wait for the new instant.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer has fired: wait until its function is done
	}
	d.timer = nil
	if isClosed(d.expired) {
		d.expired = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(expired) })
		return
	}
	close(expired)
}

// wait returns a channel that is closed at the deadline.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// isClosed reports whether a channel without senders is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
