package device

import (
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// Object is the device's record of a queue pair, an EE context, a completion queue or a
// shared receive queue of the verbs, to which asynchronous events and fault rules
// refer. The program's object holds it, and adds and removes it.
type Object struct {
	QP    *qp.QP // exactly one of the four is set
	EEC   *qp.EEC
	CQ    *qp.CQ
	SRQ   *qp.SRQ
	Owner any    // the program's object
	Wake  func() // of a CQ: wakes threads that sleep until it has entries

	dev       *Device
	gone      atomic.Bool
	destroyed func() // of a QP, may be nil; see OnDestroy

	// The lock of the event queue guards what follows.
	next    *Object // another handle of the same XRC target
	leaving bool    // Remove has begun: events about the object cannot be taken
	queued  int     // pending events
	unacked int     // taken but unacknowledged events
	acked   uint64  // acknowledged events
}

// key returns the value that identifies the object in events of the engine.
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

// qpn returns the number of a queue pair, 0 for other objects.
func (o *Object) qpn() ib.QPN {
	if o == nil || o.QP == nil {
		return 0
	}
	return o.QP.Num()
}

// Gone reports whether the object is nil or was removed.
func (o *Object) Gone() bool { return o == nil || o.gone.Load() }

// Usable returns the error of posting to the object, nil if it is usable:
// invalid if it was removed, or the error of Device.Alive.
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

// Called is Device.Called for a verb of the object; it returns invalid if the
// object was removed.
func (o *Object) Called(verb string, invalid error) error {
	if o.Gone() {
		return invalid
	}
	return o.dev.Called(verb, o)
}

// Do is Device.Do if the object exists; otherwise it returns invalid.
func (o *Object) Do(invalid error, f func(now clock.Instant) error) error {
	if o == nil {
		return invalid
	}
	return o.dev.Do(o.existing(invalid, f))
}

// Control is Device.Control if the object exists; otherwise it returns invalid.
func (o *Object) Control(invalid error, f func(now clock.Instant) error) error {
	if o == nil {
		return invalid
	}
	return o.dev.Control(o.existing(invalid, f))
}

// existing returns f for an object that a concurrent call may remove.
func (o *Object) existing(invalid error, f func(now clock.Instant) error) func(now clock.Instant) error {
	return func(now clock.Instant) error {
		if o.Gone() {
			return invalid
		}
		return f(now)
	}
}

// Call is Called, and then Do.
func (o *Object) Call(verb string, invalid error, f func(now clock.Instant) error) error {
	if err := o.Called(verb, invalid); err != nil {
		return err
	}
	return o.Do(invalid, f)
}

// Manage is Called, and then Control.
func (o *Object) Manage(verb string, invalid error, f func(now clock.Instant) error) error {
	if err := o.Called(verb, invalid); err != nil {
		return err
	}
	return o.Control(invalid, f)
}

// Add registers a new object for events, in addition to the other handles of the same XRC
// target. The control plane calls it.
func (d *Device) Add(o *Object) {
	o.dev = d
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	o.next = e.objects[o.key()]
	e.objects[o.key()] = o
}

// Remove removes the object, in the control plane: end removes it from the
// engine, and may raise events. ib.ErrBusy while an event about the object is
// unacknowledged. If end fails, the object stays as it was. Otherwise its pending
// events are dropped, including those that end has raised.
func (o *Object) Remove(end func() error) error {
	e := &o.dev.events
	if n := e.leave(o); n > 0 {
		return fmt.Errorf("%d events are not acknowledged: %w", n, ib.ErrBusy)
	}
	if err := end(); err != nil {
		e.stay(o)
		return err
	}
	o.gone.Store(true)
	e.forget(o)
	return nil
}

// Taken counts the events about the object that the program has taken: those not acknowledged yet, and those
// acknowledged. Both are 0 for nil.
func (o *Object) Taken() (unacked int, acked uint64) {
	if o == nil || o.dev == nil {
		return 0, 0
	}
	e := &o.dev.events
	e.mu.Lock()
	defer e.mu.Unlock()
	return o.unacked, o.acked
}

// Ack acknowledges one taken event.
func (o *Object) Ack() {
	e := &o.dev.events
	e.mu.Lock()
	defer e.mu.Unlock()
	o.unacked--
	o.acked++
}
