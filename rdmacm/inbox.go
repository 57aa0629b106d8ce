package rdmacm

import (
	"context"
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
)

// maxWaiting bounds the pending events of an ID: a call that would cause another one
// fails with ENOMEM. The events that a peer can add are also bounded: a connection
// ends once, and a listener has its backlog.
const maxWaiting = 64

// inbox receives the events of an ID. They wait in an event channel until the program
// takes them, and the inbox counts them until the program acknowledges them. The inbox of
// a synchronous ID has a channel to itself, from which the calls of the ID take the events.
//
// m.mu guards it.
type inbox struct {
	id      *ID // constant
	ch      *EventChannel
	sync    bool   // the ID is synchronous: CreateID or Migrate created ch for it alone
	last    *Event // sync: the last event that a call took; acknowledged with the next
	acks    ackCount
	waiting int     // events in ch
	backlog backlog // of the CONNECT_REQUESTs among them
	closed  bool    // the ID is destroyed: no more events
}

// use sets the channel, a new one if ch is nil. m.mu is held.
func (b *inbox) use(ch *EventChannel) error {
	m := b.id.m
	own := ch == nil
	if own {
		ch = m.NewEventChannel()
	}
	switch {
	case ch.m != m:
		return fmt.Errorf("the event channel is of another Manager: %w", ib.EINVAL)
	case ch.closed:
		return fmt.Errorf("event channel: %w", ErrClosed)
	}
	b.ch, b.sync = ch, own
	ch.users++
	return nil
}

// room returns an error if the maximum number of events is pending.
func (b *inbox) room() error {
	if n := b.pending(); n >= maxWaiting {
		return fmt.Errorf("the ID has %d events that the program has not read: %w", n, ib.ENOMEM)
	}
	return nil
}

// pending returns the number of pending events.
func (b *inbox) pending() int {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	return b.waiting
}

// post adds an event. Any thread may call it.
func (b *inbox) post(e *Event) {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	if b.closed {
		return
	}
	e.ID, e.about = b.id, b
	if e.count == nil {
		e.count = &b.acks
	}
	b.ch.put(e)
}

// signal makes the channel ready, for programs that wait on Ready and look at the ID.
func (b *inbox) signal() {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	b.ch.signal()
}

// postIfRoom posts an event unless too many are pending.
func (b *inbox) postIfRoom(e *Event) bool {
	if b.room() != nil {
		return false
	}
	b.post(e)
	return true
}

// complete ends a call that leads to one of the events to. On a synchronous ID it waits
// for the next event, of any type. ID.call is not held.
func (b *inbox) complete(what string, to ...EventType) error {
	b.id.m.mu.Lock()
	wait := b.sync
	b.id.m.mu.Unlock()
	if !wait {
		return nil
	}
	e, err := b.next(context.Background())
	switch {
	case err != nil:
	case e.Err != nil:
		err = e.Err
	case !slices.Contains(to, e.Type): // the connection ended before it was established
		err = fmt.Errorf("%v: %w", e.Type, ib.ENOTCONN)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// next acknowledges the last event of a synchronous ID and takes the next one.
func (b *inbox) next(ctx context.Context) (*Event, error) {
	b.id.m.mu.Lock()
	ch := b.ch
	b.release()
	b.id.m.mu.Unlock()
	e, err := ch.Get(ctx)
	if err != nil {
		return nil, err
	}
	if b.keep(e) {
		return e, nil
	}
	if e.Type == EventConnectRequest {
		_ = e.ID.end() // it has no other user, so this cannot fail
	}
	return nil, errDestroyed
}

// keep makes an event the last one of a synchronous ID. It returns false if the ID was
// destroyed meanwhile.
func (b *inbox) keep(e *Event) bool {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	if b.closed {
		e.ack()
		return false
	}
	b.release() // a concurrent call may have kept one
	b.last = e
	return true
}

// release acknowledges the last event of a synchronous ID. m.mu is held.
func (b *inbox) release() {
	if b.last != nil {
		b.last.ack()
		b.last = nil
	}
}

// adopt makes a CONNECT_REQUEST the last event of its new ID, which acknowledges it: the
// listener need not wait for that.
func (b *inbox) adopt(e *Event) error {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	if l := &e.Listener.inbox; l.last == e {
		l.last = nil
	}
	if b.closed { // the Manager is being closed
		e.ack()
		return errDestroyed
	}
	if !e.acked { // a concurrent GetRequest may have acknowledged it
		e.count.done()
	}
	e.acked, e.count = false, &b.acks
	e.count.open++
	b.last = e
	return nil
}

// move moves the inbox with its pending events to another channel, a new one if ch is
// nil, and the inboxes of pending requests with it. The result closes when the events
// that were taken before are acknowledged.
func (b *inbox) move(ch *EventChannel) (taken <-chan struct{}, err error) {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	if b.sync && ch == nil {
		return nil, fmt.Errorf("the ID is synchronous: %w", ib.EINVAL)
	}
	moved, err := b.carry(ch)
	if err != nil {
		return nil, err
	}
	b.release()
	for _, e := range moved {
		if r := &e.ID.inbox; e.Type == EventConnectRequest && !(b.sync && r.sync) {
			_, _ = r.carry(ch) // cannot fail: the channel is open and of this Manager
		}
	}
	return b.acks.wait(), nil
}

// carry moves the pending events to another channel, a new one if ch is nil, and returns
// them. m.mu is held.
func (b *inbox) carry(ch *EventChannel) ([]*Event, error) {
	old, wasSync := b.ch, b.sync
	if err := b.use(ch); err != nil {
		return nil, err
	}
	moved := old.remove(b, nil)
	for _, e := range moved {
		b.ch.put(e)
	}
	old.leave(wasSync)
	return moved, nil
}

// forget removes the pending events that a counts. The result closes when those that
// were taken are acknowledged.
func (b *inbox) forget(a *ackCount) <-chan struct{} {
	b.id.m.mu.Lock()
	defer b.id.m.mu.Unlock()
	b.ch.remove(b, a)
	b.release()
	return a.wait()
}

// close discards the pending events, and returns the IDs of pending requests. m.mu is
// held.
func (b *inbox) close() (orphans []*ID) {
	b.closed = true
	for _, e := range b.ch.remove(b, nil) {
		if e.Type == EventConnectRequest {
			orphans = append(orphans, e.ID)
		}
	}
	b.release()
	b.ch.leave(b.sync)
	return orphans
}
