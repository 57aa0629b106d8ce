package rdmacm

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// maxBacklog bounds the pending requests of a listener.
const maxBacklog = 1024

// minSilent is the least bound on accepted connections whose peers are silent: programs
// choose small backlogs for requests that they take at once.
const minSilent = 256

// Listen makes the ID a listener. Each request raises CONNECT_REQUEST with a new ID; a
// synchronous listener takes it with GetRequest. An idle ID is first bound to a free
// port on all IPv4 addresses. backlog is the maximum number of pending requests, at
// most and by default 1024; an address of another host can have three quarters of it.
// Further requests go unanswered until the peer repeats them. backlog, but at least 256,
// also bounds the accepted connections that are not established: of more than that the
// oldest, of the address that has the most, fails with CONNECT_ERROR.
//
// Errors: EINVAL in another state; EADDRINUSE and EADDRNOTAVAIL if the ID shares the
// port with others, which SetReuseAddr allows, or if another Manager of the adapter has
// it; ENODEV without an adapter.
func (id *ID) Listen(backlog int) error {
	return id.run(fmt.Sprintf("listen on %v", id.LocalAddr()), func() error { return id.listen(backlog) })
}

func (id *ID) listen(backlog int) error {
	if id.in(stateIdle) == nil {
		if err := id.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0), true); err != nil {
			return err
		}
	}
	if err := id.in(stateBound); err != nil {
		return err
	}
	if err := id.startListening(backlog); err != nil {
		return err
	}
	return id.become(stateListen)
}

// startListening opens the ID's service on its adapter, or on all adapters.
func (id *ID) startListening(backlog int) error {
	id.m.mu.Lock()
	err := id.m.ports.check(portKey{id.ps, id.src.Port()}, id, id.src.Addr(), false)
	if err == nil {
		id.listening = true
		id.settings.reuse = false // a listener does not share its port
		if id.backlog.most = backlog; backlog <= 0 || backlog > maxBacklog {
			id.backlog.most = maxBacklog
		}
	}
	id.m.mu.Unlock()
	if err != nil {
		return err
	}
	for _, d := range id.adapters() {
		err := d.claim(id.service(), id.backlog.most)
		switch {
		case err == nil:
			id.listensOn = append(id.listensOn, d)
		case id.dev == nil && d.isGone():
		default:
			id.stopListening()
			return err
		}
	}
	if len(id.listensOn) == 0 {
		id.stopListening()
		return fmt.Errorf("no adapter is open: %w", ib.ENODEV)
	}
	return nil
}

// stopListening closes the ID's service where it is open.
func (id *ID) stopListening() {
	id.m.mu.Lock()
	id.listening = false
	id.m.mu.Unlock()
	for _, d := range id.listensOn {
		// If the adapter is gone, so is the service.
		_ = d.do(func(clock.Instant) error {
			d.shut(id.service())
			return nil
		})
		d.dev.Release(id.service())
	}
	id.listensOn = nil
}

// adapters returns the adapters of the ID's address.
func (id *ID) adapters() []*adapter {
	if id.dev != nil {
		return []*adapter{id.dev}
	}
	return id.m.devices
}

// removed returns a channel that closes once the ID's adapter is gone; for an ID that is
// bound to all adapters, once the last one is gone.
func (id *ID) removed() <-chan struct{} {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.dev != nil {
		return id.dev.removed
	}
	return id.m.barren
}

// service returns the service ID of the ID's port.
func (id *ID) service() mad.ServiceID { return mad.IPServiceID(id.ps, id.src.Port()) }

// GetRequest waits for a request on a synchronous listener, until ctx ends, and
// returns its ID, which is synchronous too; its Event is the CONNECT_REQUEST.
// EINVAL if the ID is not a listener or has an event channel.
func (id *ID) GetRequest(ctx context.Context) (*ID, error) {
	if id == nil {
		return nil, fmt.Errorf("get request: %w", errDestroyed)
	}
	id.m.mu.Lock()
	ok := id.sync && id.listening
	id.m.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("get request: not a synchronous listener: %w", ib.EINVAL)
	}
	e, err := id.next(ctx)
	if err == nil {
		err = e.Err
	}
	switch {
	case err != nil:
	case e.Type != EventConnectRequest:
		err = fmt.Errorf("%v: %w", e.Type, ib.EINVAL)
	default:
		err = e.ID.adopt(e)
	}
	if err != nil {
		return nil, fmt.Errorf("get request: %w", err)
	}
	return e.ID, nil
}

// adopt makes a CONNECT_REQUEST the last event of its new ID, which acknowledges it: the
// listener need not wait for that.
func (id *ID) adopt(e *Event) error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if e.Listener.event == e {
		e.Listener.event = nil
	}
	if id.dead { // the Manager is being closed
		e.ack()
		return errDestroyed
	}
	if !e.acked { // a concurrent GetRequest may have acknowledged it
		e.count.done()
	}
	e.acked, e.count = false, &id.acks
	e.count.open++
	id.event = e
	return nil
}
