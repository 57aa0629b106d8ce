package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// TestC11_EventNames checks that names and numbers are those of librdmacm.
func TestC11_EventNames(t *testing.T) {
	for n, name := range map[EventType]string{
		0: "RDMA_CM_EVENT_ADDR_RESOLVED", 4: "RDMA_CM_EVENT_CONNECT_REQUEST", 9: "RDMA_CM_EVENT_ESTABLISHED",
		12: "RDMA_CM_EVENT_MULTICAST_JOIN", 15: "RDMA_CM_EVENT_TIMEWAIT_EXIT", 16: "UNKNOWN EVENT",
	} {
		if n.String() != name {
			t.Errorf("event %d is called %q, want %q", uint8(n), n.String(), name)
		}
	}
}

// TestC11_AckBlocksDestroy checks that Destroy waits until taken events are
// acknowledged, and discards pending ones. A connect request is an event of the
// listener.
func TestC11_AckBlocksDestroy(t *testing.T) {
	a, b := newPair(t)
	id := a.id(TCP)
	must.Do(t, id.ResolveAddr(netip.AddrPort{}, b.at(port)))
	e, ok := a.ch.TryGet()
	if !ok {
		t.Fatal("no event after ResolveAddr")
	}
	must.Do(t, id.ResolveRoute()) // its event is never taken
	done := make(chan error, 1)
	go func() { done <- id.Destroy() }()
	for {
		if err := id.SetTOS(0); err != nil { // the ID is being destroyed
			break
		}
	}
	select {
	case <-done:
		t.Fatal("Destroy did not wait for the event that was taken")
	default:
	}
	e.Ack()
	e.Ack()
	must.Do(t, <-done)
	a.quiet("after Destroy")

	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	req, err := b.ch.Get(soon(t))
	must.Do(t, err)
	destroy(t, req.ID) // does not wait
	go func() { done <- l.Destroy() }()
	req.Ack()
	must.Do(t, <-done)
	a.take(EventRejected)
	destroy(t, client)
}

// TestC11_ChannelClose checks that a channel stays open while IDs use it, and that
// waiting calls return when it is closed.
func TestC11_ChannelClose(t *testing.T) {
	a, b := newPair(t)
	id := a.id(TCP)
	must.Fail(t, a.ch.Close(), ib.EBUSY, "close a channel with an ID")
	destroy(t, id)
	got := make(chan error, 1)
	go func() {
		_, err := a.ch.Get(soon(t))
		got <- err
	}()
	must.Do(t, a.ch.Close())
	must.Fail(t, <-got, ErrClosed, "Get of a closed channel")
	must.Fail(t, a.ch.Close(), ErrClosed, "a second close")
	_, err := a.m.CreateID(a.ch, TCP)
	must.Fail(t, err, ErrClosed, "CreateID with a closed channel")
	_, err = a.m.CreateID(b.ch, TCP)
	must.Fail(t, err, ib.EINVAL, "CreateID with a channel of another Manager")
	_, err = a.m.CreateID(nil, 5)
	must.Fail(t, err, ib.EINVAL, "CreateID with an unknown port space")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = b.ch.Get(ctx)
	must.Fail(t, err, context.Canceled, "Get with a context that has ended")
	go func() {
		_, err := b.ch.Get(soon(t))
		got <- err
	}()
	must.Do(t, b.m.Close())
	must.Fail(t, <-got, ErrClosed, "Get when the Manager is closed")
	must.Fail(t, b.m.Close(), ErrClosed, "a second close of a Manager")
	_, err = b.m.CreateID(nil, TCP)
	must.Fail(t, err, ErrClosed, "CreateID of a closed Manager")
}

// TestC11_Migrate moves IDs between channels: pending events move too, and taken events
// must be acknowledged.
func TestC11_Migrate(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	waitUntil(t, func() bool { return b.pending(l) == 1 })
	old := b.ch
	b.ch = b.m.NewEventChannel()
	must.Do(t, l.Migrate(b.ch))
	if _, ok := old.TryGet(); ok {
		t.Error("an event stayed behind in the old channel")
	}
	must.Do(t, old.Close())
	server := withQP(t, b.take(EventConnectRequest).ID)

	must.Do(t, server.Accept(nil))
	a.take(EventEstablished)
	e, err := b.ch.Get(soon(t))
	must.Do(t, err)
	done := make(chan error, 1)
	third := b.m.NewEventChannel()
	go func() { done <- server.Migrate(third) }()
	e.Ack()
	must.Do(t, <-done)
	must.Do(t, client.Disconnect())
	if e, err := third.Get(soon(t)); err != nil || e.Type != EventDisconnected {
		t.Fatalf("in the new channel: %v, %v", e, err)
	} else {
		e.Ack()
	}
	must.Do(t, server.Disconnect())
	must.Fail(t, server.Migrate(a.ch), ib.EINVAL, "Migrate to a channel of another Manager")
	must.Do(t, server.Migrate(nil))
	must.Fail(t, server.Migrate(nil), ib.EINVAL, "Migrate of a synchronous ID to nil")
	must.Do(t, server.Migrate(third))
	destroy(t, client, server, l)
}

// TestC11_MigrateUntaken moves a listener with a pending request to a channel of its
// own: the request's ID follows.
func TestC11_MigrateUntaken(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	waitUntil(t, func() bool { return b.pending(l) == 1 })
	must.Do(t, l.Migrate(nil))
	server, err := l.GetRequest(soon(t))
	must.Do(t, err)
	must.Do(t, b.ch.Close())
	withQP(t, server)
	must.Do(t, server.Accept(nil))
	a.take(EventEstablished)
	destroy(t, client, server, l)
}

// TestC11_Bounds reaches the limits of an ID and of a Manager.
func TestC11_Bounds(t *testing.T) {
	m, err := Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"})
	must.Do(t, err)
	defer func() { must.Do(t, m.Close()) }()
	ch := m.NewEventChannel()
	id, err := m.CreateID(ch, TCP)
	must.Do(t, err)
	far := netip.MustParseAddrPort("[fd00::1]:1")
	must.Do(t, id.BindAddr(netip.MustParseAddrPort("[::]:0")))
	for range maxWaiting {
		must.Do(t, id.ResolveAddr(netip.AddrPort{}, far))
	}
	must.Fail(t, id.ResolveAddr(netip.AddrPort{}, far), ib.ENOMEM, "one event too many")
	e, _ := ch.TryGet()
	if e.Type != EventAddrError || e.Status != -int(ib.ENODEV) || !errors.Is(e.Err, ib.ENODEV) {
		t.Errorf("event %v, status %d, %v; want ADDR_ERROR and ENODEV", e.Type, e.Status, e.Err)
	}
	e.Ack()
	must.Do(t, id.ResolveAddr(netip.AddrPort{}, far))

	for range maxIDs - 1 {
		if _, err := m.CreateID(ch, TCP); err != nil {
			t.Fatal(err)
		}
	}
	_, err = m.CreateID(ch, TCP)
	must.Fail(t, err, ib.ENOMEM, "one ID too many")
	destroy(t, id)
	_, err = m.CreateID(ch, TCP)
	must.Do(t, err)
}

// TestC11_NewManager checks the errors of New.
func TestC11_NewManager(t *testing.T) {
	_, err := New()
	must.Fail(t, err, ib.EINVAL, "a Manager without an adapter")
	ctx, err := verbs.Open(verbs.Config{Network: verbs.NewNetwork(), Addr: "10.0.0.1"})
	must.Do(t, err)
	_, err = New(ctx, ctx)
	must.Fail(t, err, ib.EINVAL, "a Manager with an adapter twice")
	m, err := New(ctx)
	must.Do(t, err)
	if d := m.Devices(); len(d) != 1 || d[0] != ctx {
		t.Errorf("Devices returns %v", d)
	}
	must.Do(t, m.Close())
	if _, err := ctx.QueryPort(); err != nil {
		t.Errorf("closing a Manager of New closed the adapter: %v", err)
	}
	must.Do(t, ctx.Close())
	_, err = New(ctx)
	must.Fail(t, err, ib.ENODEV, "a Manager of a closed adapter")
	_, err = Open(verbs.Config{Addr: "nowhere"})
	must.Fail(t, err, ib.EINVAL, "Open of a bad address")
}

// TestChannelLen checks that Len counts pending events, and no longer those that Destroy
// has discarded.
func TestChannelLen(t *testing.T) {
	a, b := newPair(t)
	id := a.id(TCP)
	must.Do(t, id.ResolveAddr(netip.AddrPort{}, b.at(port)))
	must.Do(t, id.ResolveRoute())
	if n := a.ch.Len(); n != 2 {
		t.Errorf("%d events wait after two calls", n)
	}
	a.take(EventAddrResolved)
	if n := a.ch.Len(); n != 1 {
		t.Errorf("%d events wait after one of two was taken", n)
	}
	must.Do(t, id.Destroy())
	if n := a.ch.Len(); n != 0 {
		t.Errorf("%d events wait of an ID that is gone", n)
	}
}
