package device

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// Object is what the device keeps of a queue pair, an EE context, a completion
// queue or a shared receive queue of the verbs: asynchronous events and rules of faults
// are about one. A program's object holds it, and has it added and removed.
type Object struct {
	QP    *qp.QP // one of the four is set
	EEC   *qp.EEC
	CQ    *qp.CQ
	SRQ   *qp.SRQ
	Owner any    // the program's object
	Wake  func() // of a CQ: wakes who sleeps until it has entries

	dev  *Device
	gone atomic.Bool

	// The lock of the event queue guards what follows.
	queued  int // events that wait to be taken
	unacked int // events that were taken and not acknowledged
}

// key returns what events of the engine name the object by.
func (o *Object) key() any {
	switch {
	case o.QP != nil:
		return o.QP.Num()
	case o.EEC != nil:
		return o.EEC.Num()
	case o.CQ != nil:
		return o.CQ
	default:
		return o.SRQ
	}
}

// qpn returns the number of a queue pair, 0 for what is none.
func (o *Object) qpn() ib.QPN {
	if o == nil || o.QP == nil {
		return 0
	}
	return o.QP.Num()
}

// Gone reports whether there is no object, or it was removed.
func (o *Object) Gone() bool { return o == nil || o.gone.Load() }

// Usable returns why posting to the object fails, nil if it does not: invalid
// if it is gone, or what Device.Alive says.
func (o *Object) Usable(invalid error) error {
	if o == nil {
		return invalid
	}
	if err := o.dev.Alive(); err != nil {
		return err
	}
	if o.gone.Load() {
		return invalid
	}
	return nil
}

// Called is Device.Called for a verb that is about the object; invalid if it is
// gone.
func (o *Object) Called(verb string, invalid error) error {
	if o.Gone() {
		return invalid
	}
	return o.dev.Called(verb, o)
}

// Do is Device.Do as long as the object exists; else it returns invalid.
func (o *Object) Do(invalid error, f func(now clock.Instant) error) error {
	if o == nil {
		return invalid
	}
	return o.dev.Do(func(now clock.Instant) error {
		if o.Gone() { // by a call at the same time
			return invalid
		}
		return f(now)
	})
}

// Call is Called, and then Do.
func (o *Object) Call(verb string, invalid error, f func(now clock.Instant) error) error {
	if err := o.Called(verb, invalid); err != nil {
		return err
	}
	return o.Do(invalid, f)
}

// Add has events find an object that was just made, on the device's thread.
func (d *Device) Add(o *Object) {
	o.dev = d
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects[o.key()] = o
}

// Remove ends the object, on the device's thread: end takes it out of the
// engine and must not raise events. ib.ErrBusy while an event about it was taken
// and not acknowledged. As events are taken under the same lock, none is taken
// of an object that is gone; those that wait vanish with it.
func (o *Object) Remove(end func() error) error {
	e := &o.dev.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.unacked > 0 {
		return fmt.Errorf("%d events are not acknowledged: %w", o.unacked, ib.ErrBusy)
	}
	if err := end(); err != nil {
		return err
	}
	o.gone.Store(true)
	delete(e.objects, o.key())
	if o.queued > 0 {
		e.queue = slices.DeleteFunc(e.queue, func(ev Event) bool { return ev.About == o })
	}
	return nil
}

// Ack takes back one event that was taken.
func (o *Object) Ack() {
	e := &o.dev.events
	e.mu.Lock()
	defer e.mu.Unlock()
	o.unacked--
}
