package rdmacm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
)

// Migrate moves the ID to another event channel of its Manager, with its pending
// events, which are added at the end; nil makes the ID synchronous. It waits until the
// events that were taken before are acknowledged. EINVAL if ch is nil and the ID is
// already synchronous, and for a channel of another Manager; ErrClosed for a closed
// channel.
func (id *ID) Migrate(ch *EventChannel) error {
	var taken <-chan struct{}
	err := id.run("migrate", func() (err error) {
		taken, err = id.migrate(ch)
		return err
	})
	if err != nil {
		return err
	}
	id.m.drain(taken)
	return nil
}

func (id *ID) migrate(ch *EventChannel) (taken <-chan struct{}, err error) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	old, wasSync := id.ch, id.sync
	if wasSync && ch == nil {
		return nil, fmt.Errorf("the ID is synchronous: %w", ib.EINVAL)
	}
	if err := id.join(ch); err != nil {
		return nil, err
	}
	id.release()
	old.users--
	for _, e := range old.remove(id) {
		id.ch.put(e)
		if e.Type == EventConnectRequest {
			e.ID.follow(id)
		}
	}
	if wasSync {
		old.shut()
	}
	return id.acks.wait(), nil
}

// follow moves the ID of a pending request to the new channel of its listener; if the
// listener is synchronous, to a channel of its own. m.mu is held.
func (id *ID) follow(l *ID) {
	old, wasSync := id.ch, id.sync
	to := l.ch
	if l.sync {
		if wasSync {
			return
		}
		to = nil
	}
	old.users--
	if wasSync {
		old.shut()
	}
	_ = id.join(to) // cannot fail: the channel is open and of this Manager
	for _, e := range old.remove(id) {
		id.ch.put(e)
	}
}
