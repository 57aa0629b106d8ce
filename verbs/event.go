package verbs

import (
	"context"
	"fmt"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// AsyncEvent is an asynchronous event: one of QP, EEC, CQ and SRQ is set for an
// affiliated event, Port for a port event, Err for DEVICE_FATAL.
type AsyncEvent struct {
	Type EventType
	QP   *QP
	EEC  *EEC
	CQ   *CQ
	SRQ  *SRQ
	Port uint8
	Err  error // the cause of DEVICE_FATAL

	about *device.Object
	once  *sync.Once
}

// Ack acknowledges the event. An object cannot be destroyed while an event
// about it was taken and not acknowledged. Further calls do nothing.
func (e AsyncEvent) Ack() {
	if e.about != nil {
		e.once.Do(e.about.Ack)
	}
}

// String names the event and its object.
func (e AsyncEvent) String() string {
	switch {
	case e.QP != nil:
		return fmt.Sprintf("%v qp %v", e.Type, e.QP.QPN())
	case e.EEC != nil:
		return fmt.Sprintf("%v eec %v", e.Type, e.EEC.EECN())
	case e.Err != nil:
		return fmt.Sprintf("%v: %v", e.Type, e.Err)
	default:
		return e.Type.String()
	}
}

// take returns the oldest event and whether there is one.
func (c *Context) take() (AsyncEvent, bool, error) {
	ev, ok, err := c.dev().TakeEvent()
	a := AsyncEvent{Type: ev.Type, Port: ev.Port, Err: ev.Err, about: ev.About}
	if a.about == nil {
		return a, ok, err
	}
	a.once = new(sync.Once)
	switch o := a.about.Owner.(type) {
	case *QP:
		a.QP = o
	case *EEC:
		a.EEC = o
	case *CQ:
		a.CQ = o
	case *SRQ:
		a.SRQ = o
	}
	return a, ok, err
}

// GetAsyncEvent returns the oldest asynchronous event, waiting for one until
// ctx ends. The caller acknowledges it with Ack. After Close it returns
// ErrInvalidHCA.
func (c *Context) GetAsyncEvent(ctx context.Context) (AsyncEvent, error) {
	for {
		ev, ok, err := c.take()
		if ok || err != nil {
			return ev, err
		}
		select {
		case <-c.AsyncEventReady():
		case <-ctx.Done():
			return AsyncEvent{}, ctx.Err()
		}
	}
}

// PollAsyncEvent returns the oldest asynchronous event without waiting; EAGAIN
// when there is none.
func (c *Context) PollAsyncEvent() (AsyncEvent, error) {
	ev, ok, err := c.take()
	if !ok && err == nil {
		err = fmt.Errorf("no asynchronous event: %w", ib.EAGAIN)
	}
	return ev, err
}

// AsyncEventReady returns a channel that has an element while events wait, for
// use in a select; take them with PollAsyncEvent until EAGAIN. It is nil for a
// nil Context.
func (c *Context) AsyncEventReady() <-chan struct{} { return c.dev().EventReady() }
