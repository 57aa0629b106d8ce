package rdmacm

import (
	"context"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// ErrClosed is returned by calls on closed objects. It unwraps to EINVAL.
var ErrClosed = fmt.Errorf("closed: %w", ib.EINVAL)

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
// after the last event was taken. It also has one when the channel is closed, when the
// queue pair of an ID that uses it is destroyed, by DestroyQP or by its own Destroy, and
// when the last ID that uses it is destroyed, by Destroy or with the Manager, or moves away.
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

// leave ends the use by an inbox, and the channel if the inbox had it to itself. m.mu is
// held.
func (ch *EventChannel) leave(own bool) {
	ch.users--
	if own {
		ch.shut()
	} else if ch.users == 0 {
		ch.signal() // for programs that wait on Ready
	}
}

// remove removes the events of an inbox that a counts, all if a is nil, and returns them
// in order. m.mu is held.
func (ch *EventChannel) remove(b *inbox, a *ackCount) []*Event {
	if b.waiting == 0 {
		return nil
	}
	var kept, out []*Event
	for _, e := range ch.queue {
		if e.about == b && (a == nil || e.count == a) {
			out = append(out, e)
		} else {
			kept = append(kept, e)
		}
	}
	ch.queue = kept
	b.waiting -= len(out)
	return out
}
