package rdmacm

import (
	"context"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// ErrClosed is returned by calls on closed objects. It unwraps to EINVAL.
var ErrClosed = fmt.Errorf("closed: %w", ib.EINVAL)

// maxWaiting bounds the pending events of an ID: a call that would cause another one
// fails with ENOMEM. The events that a peer can add are also bounded: a connection
// ends once, and a listener has its backlog.
const maxWaiting = 64

// EventChannel holds the events of its IDs, in the order in which they
// happened.
type EventChannel struct {
	m     *Manager
	ready chan struct{} // has an element when queue is not empty

	// m.mu guards what follows.
	queue  []*Event
	users  int // IDs
	closed bool
}

// NewEventChannel returns a channel for IDs of this Manager.
func (m *Manager) NewEventChannel() *EventChannel {
	if m == nil {
		return nil
	}
	return &EventChannel{m: m, ready: make(chan struct{}, 1)}
}

// Get returns the oldest event, waiting for one until ctx ends. The caller
// acknowledges it with Ack. ErrClosed once the channel or the Manager is
// closed; ctx.Err when ctx ends.
func (ch *EventChannel) Get(ctx context.Context) (*Event, error) {
	for {
		e, err := ch.take()
		if e != nil || err != nil {
			return e, err
		}
		select {
		case <-ch.ready:
		case <-ch.m.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TryGet returns the oldest event, if any.
func (ch *EventChannel) TryGet() (*Event, bool) {
	e, err := ch.take()
	return e, err == nil && e != nil
}

// Ready returns a channel that has an element while events are pending, for use in a
// select; take them with TryGet until there are no more. It may still have an element
// after the last event was taken.
func (ch *EventChannel) Ready() <-chan struct{} {
	if ch == nil {
		return nil
	}
	return ch.ready
}

// Len returns the number of pending events.
func (ch *EventChannel) Len() int {
	if ch == nil {
		return 0
	}
	ch.m.mu.Lock()
	defer ch.m.mu.Unlock()
	return len(ch.queue)
}

// Close ends the channel. EBUSY while IDs use it.
func (ch *EventChannel) Close() error {
	if ch == nil {
		return fmt.Errorf("close event channel: %w", ErrClosed)
	}
	ch.m.mu.Lock()
	defer ch.m.mu.Unlock()
	switch {
	case ch.closed:
		return fmt.Errorf("close event channel: %w", ErrClosed)
	case ch.users > 0:
		return fmt.Errorf("close event channel: %d IDs use it: %w", ch.users, ib.EBUSY)
	}
	ch.shut()
	return nil
}

// shut ends the channel. m.mu is held.
func (ch *EventChannel) shut() {
	ch.closed = true
	ch.signal()
}

func (ch *EventChannel) signal() {
	select {
	case ch.ready <- struct{}{}:
	default:
	}
}

// take removes and returns the oldest event; nil without an error if there is none.
func (ch *EventChannel) take() (*Event, error) {
	if ch == nil {
		return nil, fmt.Errorf("no event channel: %w", ErrClosed)
	}
	ch.m.mu.Lock()
	defer ch.m.mu.Unlock()
	if ch.closed || ch.m.closed {
		ch.signal() // for the next one
		return nil, fmt.Errorf("event channel: %w", ErrClosed)
	}
	if len(ch.queue) == 0 {
		return nil, nil
	}
	e := ch.queue[0]
	ch.queue[0] = nil
	ch.queue = ch.queue[1:]
	if len(ch.queue) > 0 {
		ch.signal()
	} else {
		ch.queue = nil
	}
	e.about.waiting--
	e.count.open++
	if e.Type == EventConnectRequest {
		e.about.backlog.remove(e.source)
		e.ID.Context = e.Listener.Context // as rdma_cm does; only now can the program see the ID
	}
	return e, nil
}

// put adds an event. m.mu is held.
func (ch *EventChannel) put(e *Event) {
	e.about.waiting++
	ch.queue = append(ch.queue, e)
	ch.signal()
}

// remove removes the events of an ID and returns them in order. m.mu is held.
func (ch *EventChannel) remove(id *ID) []*Event {
	return ch.filter(id, func(*Event) bool { return true })
}

// removeOf removes the events of an ID that a counts.
func (ch *EventChannel) removeOf(id *ID, a *ackCount) {
	ch.filter(id, func(e *Event) bool { return e.count == a })
}

// filter removes and returns the events of an ID for which drop returns true.
func (ch *EventChannel) filter(id *ID, drop func(*Event) bool) []*Event {
	if id.waiting == 0 {
		return nil
	}
	var kept, out []*Event
	for _, e := range ch.queue {
		if e.about == id && drop(e) {
			out = append(out, e)
		} else {
			kept = append(kept, e)
		}
	}
	ch.queue = kept
	id.waiting -= len(out)
	return out
}
