package device

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
)

// Event is an asynchronous event.
type Event struct {
	Type  ib.EventType
	About *Object // nil for an event of the port or of the device
	Port  uint8   // of a port event
	Err   error   // of DEVICE_FATAL: the cause
}

// MaxEvents bounds the pending events.
const MaxEvents = 4096

// eventQueue holds pending events, and the objects that events can be about.
type eventQueue struct {
	ready chan struct{} // has an element while an event is pending

	mu      lock.Mutex[lock.Events] // guards what follows
	queue   []Event
	lost    uint64
	objects map[any]*Object
	shut    bool
	death   *Event // DEVICE_FATAL, which is never lost
}

func (e *eventQueue) init() {
	e.ready = make(chan struct{}, 1)
	e.objects = make(map[any]*Object)
}

// raise is called by the shard. It drops events about removed objects, as
// Remove drops pending ones.
func (e *eventQueue) raise(ev qp.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := Event{Type: ev.Type, Port: ev.Port}
	var key any
	switch {
	case ev.CQ != nil:
		key = ev.CQ
	case ev.SRQ != nil:
		key = ev.SRQ
	case ev.EEC != 0:
		key = ev.EEC
	case ev.QPN != 0:
		key = ev.QPN
	}
	if key == nil {
		e.add(a)
		return
	}
	for a.About = e.objects[key]; a.About != nil; a.About = a.About.next {
		e.add(a)
	}
}

// add queues one event.
func (e *eventQueue) add(a Event) {
	if len(e.queue) == MaxEvents {
		e.lost++
		return
	}
	if a.About != nil {
		a.About.queued++
	}
	e.queue = append(e.queue, a)
	e.signal()
}

// fatal raises DEVICE_FATAL.
func (e *eventQueue) fatal(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.death = &Event{Type: ib.EventDeviceFatal, Err: cause}
	e.signal()
}

func (e *eventQueue) signal() {
	select {
	case e.ready <- struct{}{}:
	default:
	}
}

// TakeEvent removes the oldest event and counts it as unacknowledged for its object
// until Object.Ack. ok is false if none is pending; after Close the error is
// ib.ErrInvalidHCA.
func (d *Device) TakeEvent() (a Event, ok bool, err error) {
	if d == nil {
		return a, false, ib.ErrInvalidHCA
	}
	e := &d.events
	e.mu.Lock()
	defer e.mu.Unlock()
	switch i := e.oldest(); {
	case i >= 0:
		a = e.take(i)
		if a.About != nil {
			a.About.queued--
			a.About.unacked++
		}
	case e.death != nil:
		a, e.death = *e.death, nil
	case e.shut:
		err = ib.ErrInvalidHCA
	default:
		return a, false, nil
	}
	if e.oldest() >= 0 || e.death != nil || e.shut {
		e.signal()
	}
	return a, err == nil, err
}

// oldest returns the index of the oldest event that a program may take, -1 if there is
// none. Events about an object that is being removed wait for the outcome.
func (e *eventQueue) oldest() int {
	return slices.IndexFunc(e.queue, func(ev Event) bool { return ev.About == nil || !ev.About.leaving })
}

// take removes and returns event i.
func (e *eventQueue) take(i int) Event {
	a := e.queue[i]
	if i > 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
		return a
	}
	e.queue[0] = Event{}
	e.queue = e.queue[1:] // append moves the rest when the array is used up
	return a
}

// leave marks an object that is about to be removed. If events about it are
// unacknowledged, it returns their number instead.
func (e *eventQueue) leave(o *Object) (unacked int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o.leaving = o.unacked == 0
	return o.unacked
}

// stay undoes leave.
func (e *eventQueue) stay(o *Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o.leaving = false
	if o.queued > 0 {
		e.signal()
	}
}

// forget removes an object, and the events about it.
func (e *eventQueue) forget(o *Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := o.key()
	if first := e.objects[key]; first != o {
		for first.next != o {
			first = first.next
		}
		first.next = o.next
	} else if o.next != nil {
		e.objects[key] = o.next
	} else {
		delete(e.objects, key)
	}
	if o.queued > 0 {
		e.queue = slices.DeleteFunc(e.queue, func(ev Event) bool { return ev.About == o })
	}
}

// close tells waiting threads that there will be no more events, and wakes
// threads that sleep on a completion queue.
func (e *eventQueue) close() {
	e.mu.Lock()
	e.shut = true
	e.signal()
	e.mu.Unlock()
	e.wakeAll()
}

// wakeAll wakes threads that sleep on the completion queues of the device.
func (e *eventQueue) wakeAll() {
	for _, o := range e.all(func(o *Object) bool { return o.CQ != nil }) {
		o.Wake()
	}
}

// all returns the objects for which want is true.
func (e *eventQueue) all(want func(*Object) bool) (some []*Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.objects {
		if want(o) {
			some = append(some, o)
		}
	}
	return some
}

// alone reports whether no other handle of the object's queue pair exists.
func (e *eventQueue) alone(o *Object) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.objects[o.key()] == o && o.next == nil
}

func (e *eventQueue) lostCount() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}

// EventReady returns a channel that has an element while TakeEvent has
// something to return; nil without a device.
func (d *Device) EventReady() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.events.ready
}
