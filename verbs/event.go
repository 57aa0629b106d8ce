package verbs

import (
	"context"
	"fmt"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

// AsyncEvent is an asynchronous event (V16): one of QP, CQ and SRQ is set for
// an affiliated event, Port for a port event, Err for DEVICE_FATAL.
type AsyncEvent struct {
	Type ib.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port uint8
	Err  error // DEVICE_FATAL: what broke

	unacked *int // of the object that the event is about
	queue   *eventQueue
	once    *sync.Once
}

// Ack acknowledges the event. An object cannot be destroyed while an event
// about it was taken and not acknowledged (E29). Further calls do nothing.
func (e AsyncEvent) Ack() {
	if e.unacked != nil {
		e.once.Do(func() {
			e.queue.mu.Lock()
			defer e.queue.mu.Unlock()
			*e.unacked--
		})
	}
}

// String names the event and what it is about.
func (e AsyncEvent) String() string {
	switch {
	case e.QP != nil:
		return fmt.Sprintf("%v qp %v", e.Type, e.QP.QPN())
	case e.Err != nil:
		return fmt.Sprintf("%v: %v", e.Type, e.Err)
	default:
		return e.Type.String()
	}
}

// maxEvents bounds the events that wait to be taken.
const maxEvents = 4096

// eventQueue holds events until they are taken, and the objects that they can
// be about.
type eventQueue struct {
	ready chan struct{} // has an element when queue is not empty

	mu    sync.Mutex // guards what follows, and unacked of every object
	queue []AsyncEvent
	lost  uint64
	qps   map[ib.QPN]*QP
	cqs   map[*qp.CQ]*CQ
	srqs  map[*qp.SRQ]*SRQ
	shut  bool
	death *AsyncEvent // DEVICE_FATAL does not get lost
}

func (e *eventQueue) init() {
	e.ready = make(chan struct{}, 1)
	e.qps = make(map[ib.QPN]*QP)
	e.cqs = make(map[*qp.CQ]*CQ)
	e.srqs = make(map[*qp.SRQ]*SRQ)
}

// raise is called by the shard.
func (e *eventQueue) raise(ev qp.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := AsyncEvent{Type: ev.Type, Port: ev.Port, queue: e, once: new(sync.Once)}
	switch {
	case ev.CQ != nil:
		if a.CQ = e.cqs[ev.CQ]; a.CQ != nil {
			a.unacked = &a.CQ.unacked
		}
	case ev.SRQ != nil:
		if a.SRQ = e.srqs[ev.SRQ]; a.SRQ != nil {
			a.unacked = &a.SRQ.unacked
		}
	case ev.QPN != 0:
		if a.QP = e.qps[ev.QPN]; a.QP != nil {
			a.unacked = &a.QP.unacked
		}
	}
	if len(e.queue) == maxEvents {
		e.lost++
		return
	}
	e.queue = append(e.queue, a)
	e.signal()
}

// fatal raises DEVICE_FATAL.
func (e *eventQueue) fatal(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.death = &AsyncEvent{Type: ib.EventDeviceFatal, Err: cause}
	e.signal()
}

func (e *eventQueue) signal() {
	select {
	case e.ready <- struct{}{}:
	default:
	}
}

// take removes the oldest event.
func (e *eventQueue) take() (AsyncEvent, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) > 0 {
		a := e.queue[0]
		e.queue = append(e.queue[:0], e.queue[1:]...)
		if a.unacked != nil {
			*a.unacked++
		}
		if len(e.queue) > 0 || e.death != nil || e.shut {
			e.signal()
		}
		return a, true, nil
	}
	if d := e.death; d != nil {
		e.death = nil
		if e.shut {
			e.signal()
		}
		return *d, true, nil
	}
	if e.shut {
		e.signal()
		return AsyncEvent{}, false, ErrInvalidHCA
	}
	return AsyncEvent{}, false, nil
}

func (e *eventQueue) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shut = true
	e.signal()
}

func (e *eventQueue) lostCount() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}

// end has destroy end an object, and must not raise events. As events are taken
// and counted under the same lock, none is taken of an object that is gone.
func (e *eventQueue) end(unacked *int, destroy func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *unacked > 0 {
		return fmt.Errorf("%d events are not acknowledged: %w", *unacked, ErrBusy)
	}
	return destroy()
}

// forget drops waiting events that keep says no to.
func (e *eventQueue) forget(drop func(*AsyncEvent) bool) {
	kept := e.queue[:0]
	for i := range e.queue {
		if !drop(&e.queue[i]) {
			kept = append(kept, e.queue[i])
		}
	}
	clear(e.queue[len(kept):])
	e.queue = kept
}

func (e *eventQueue) addQP(q *QP) {
	e.mu.Lock()
	e.qps[q.QPN()] = q
	e.mu.Unlock()
}

// removeQP forgets a QP, in end.
func (e *eventQueue) removeQP(q *QP) {
	if e.qps[q.QPN()] == q { // QP1 may exist anew already
		delete(e.qps, q.QPN())
	}
	e.forget(func(a *AsyncEvent) bool { return a.QP == q })
}

func (e *eventQueue) addCQ(c *CQ) {
	e.mu.Lock()
	e.cqs[c.cq] = c
	e.mu.Unlock()
}

// removeCQ forgets a CQ, in end.
func (e *eventQueue) removeCQ(c *CQ) {
	delete(e.cqs, c.cq)
	e.forget(func(a *AsyncEvent) bool { return a.CQ == c })
}

func (e *eventQueue) addSRQ(s *SRQ) {
	e.mu.Lock()
	e.srqs[s.srq] = s
	e.mu.Unlock()
}

// removeSRQ forgets an SRQ, in end.
func (e *eventQueue) removeSRQ(s *SRQ) {
	delete(e.srqs, s.srq)
	e.forget(func(a *AsyncEvent) bool { return a.SRQ == s })
}

// allCQs returns every CQ, allSRQs every SRQ, for rules that act on all.
func (e *eventQueue) allCQs() (s []subject) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for q := range e.cqs {
		s = append(s, subject{cq: q})
	}
	return s
}

func (e *eventQueue) allSRQs() (s []subject) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for q := range e.srqs {
		s = append(s, subject{srq: q})
	}
	return s
}

// GetAsyncEvent returns the oldest asynchronous event, waiting for one until
// ctx ends. The caller acknowledges it with Ack. After Close it returns
// ErrInvalidHCA.
func (c *Context) GetAsyncEvent(ctx context.Context) (AsyncEvent, error) {
	if c == nil {
		return AsyncEvent{}, ErrInvalidHCA
	}
	for {
		ev, ok, err := c.events.take()
		if ok || err != nil {
			return ev, err
		}
		select {
		case <-c.events.ready:
		case <-ctx.Done():
			return AsyncEvent{}, ctx.Err()
		}
	}
}

// PollAsyncEvent returns the oldest asynchronous event without waiting; EAGAIN
// when there is none.
func (c *Context) PollAsyncEvent() (AsyncEvent, error) {
	if c == nil {
		return AsyncEvent{}, ErrInvalidHCA
	}
	ev, ok, err := c.events.take()
	if !ok && err == nil {
		err = fmt.Errorf("no asynchronous event: %w", ib.EAGAIN)
	}
	return ev, err
}

// AsyncEventReady returns a channel that has an element while events wait, for
// use in a select; take them with PollAsyncEvent until EAGAIN.
func (c *Context) AsyncEventReady() <-chan struct{} { return c.events.ready }
