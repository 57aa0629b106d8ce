package device

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// Object is what the device keeps of a queue pair, a completion queue or a
// shared receive queue of the verbs: asynchronous events and rules of faults
// are about one. A program's object holds it, and gives it to Add and Remove.
type Object struct {
	QP    *qp.QP // one of the three is set
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

// Gone reports whether the object was removed.
func (o *Object) Gone() bool { return o.gone.Load() }

// Add has events find an object that was just made, on the device's thread.
func (d *Device) Add(o *Object) {
	o.dev = d
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects[o.key()] = o
}

// Remove ends an object, on the device's thread: end takes it out of the
// engine and must not raise events. ErrBusy while an event about it was taken
// and not acknowledged. As events are taken under the same lock, none is taken
// of an object that is gone; those that wait vanish with it.
func (d *Device) Remove(o *Object, end func() error) error {
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.unacked > 0 {
		return fmt.Errorf("%d events are not acknowledged: %w", o.unacked, hca.ErrBusy)
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
