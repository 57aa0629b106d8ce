package rdmacm

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
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
// oldest one of the address that has the most fails with UNREACHABLE.
//
// Errors: EINVAL in another state; EADDRINUSE and EADDRNOTAVAIL if the ID shares the
// port with others, which SetReuseAddr allows, or if another Manager of the adapter has
// it; ENODEV without an adapter.
func (id *ID) Listen(backlog int) error {
	if err := disturb(id, "CMListen"); err != nil {
		return err
	}
	return id.run(fmt.Sprintf("listen on %v", id.LocalAddr()), func() error { return id.listen(backlog) })
}

func (id *ID) listen(backlog int) error {
	if id.link.in(stateIdle) == nil {
		if err := id.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0), true); err != nil {
			return err
		}
	}
	if err := id.link.in(stateBound); err != nil {
		return err
	}
	if backlog <= 0 || backlog > maxBacklog {
		backlog = maxBacklog
	}
	if err := id.at.listen(id, backlog); err != nil {
		return err
	}
	return id.link.become(stateListen)
}

// listen opens the service for an ID, the binding's, on its adapter or on all adapters.
func (b *binding) listen(id *ID, backlog int) error {
	b.m.mu.Lock()
	err := b.m.ports.check(b, b.src, false)
	if err == nil {
		b.listener = id
		b.reuse = false // a listener does not share its port
		id.inbox.backlog.most = backlog
	}
	b.m.mu.Unlock()
	if err != nil {
		return err
	}
	for _, d := range b.adapters() {
		err := d.claim(b.service(), backlog)
		switch {
		case err == nil:
			b.open = append(b.open, d)
		case b.dev == nil && d.isGone():
		default:
			b.stopListening()
			return err
		}
	}
	if len(b.open) == 0 {
		b.stopListening()
		return fmt.Errorf("no adapter is open: %w", ib.ENODEV)
	}
	return nil
}

// stopListening closes the service where it is open.
func (b *binding) stopListening() {
	b.m.mu.Lock()
	b.listener = nil
	b.m.mu.Unlock()
	for _, d := range b.open {
		// If the adapter is gone, so is the service.
		_ = d.do(func(clock.Instant) error {
			d.shut(b.service())
			return nil
		})
		d.dev.Release(b.service())
	}
	b.open = nil
}

// GetRequest waits for a request on a synchronous listener, until ctx ends, and
// returns its ID, which is synchronous too; its Event is the CONNECT_REQUEST.
// EINVAL if the ID is not a listener or has an event channel; ENODEV once the adapter, or
// the last of several, is gone; ErrClosed once the ID or the Manager is closed; ctx.Err when
// ctx ends.
func (id *ID) GetRequest(ctx context.Context) (*ID, error) {
	if id == nil {
		return nil, fmt.Errorf("get request: %w", errDestroyed)
	}
	id.m.mu.Lock()
	ok := id.inbox.sync && id.at.listener != nil
	id.m.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("get request: not a synchronous listener: %w", ib.EINVAL)
	}
	e, err := id.inbox.next(ctx)
	if err == nil {
		err = e.Err
	}
	if err != nil && e != nil && e.Type == EventDeviceRemoval {
		id.inbox.post(&Event{Type: e.Type, Err: e.Err, Status: e.Status}) // for other calls, and later ones
	}
	switch {
	case err != nil:
	case e.Type != EventConnectRequest:
		err = fmt.Errorf("%v: %w", e.Type, ib.EINVAL)
	default:
		err = e.ID.inbox.adopt(e)
	}
	if err != nil {
		return nil, fmt.Errorf("get request: %w", err)
	}
	return e.ID, nil
}
