package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// syncID returns an ID without an event channel.
func (h *host) syncID(ps PortSpace) *ID {
	h.t.Helper()
	id, err := h.m.CreateID(nil, ps)
	must.Do(h.t, err)
	return id
}

// syncClient returns a synchronous ID that may connect, with a QP.
func (h *host) syncClient(to netip.AddrPort) *ID {
	h.t.Helper()
	id := h.syncID(TCP)
	must.Do(h.t, id.ResolveAddr(netip.AddrPort{}, to))
	must.Do(h.t, id.ResolveRoute())
	return withQP(h.t, id)
}

// syncListener returns a synchronous listener.
func (h *host) syncListener() *ID {
	h.t.Helper()
	l := h.syncID(TCP)
	must.Do(h.t, l.BindAddr(h.at(port)))
	must.Do(h.t, l.Listen(0))
	return l
}

// TestC11_Synchronous connects synchronous IDs, as rdma_client and rdma_server do.
func TestC11_Synchronous(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			a, b := network(t)
			l := b.syncListener()
			l.Context = "of the listener"
			accepted := make(chan *ID, 1)
			served := make(chan error, 1)
			go func() {
				server, err := l.GetRequest(soon(t))
				if err == nil {
					accepted <- server
					err = errors.Join(server.CreateQP(nil, small()), server.Accept(nil))
				}
				served <- err
			}()
			client := a.syncClient(b.at(port))
			must.Do(t, client.Connect(nil))
			if e := client.Event(); e.Type != EventEstablished || len(e.Param.PrivateData) != 196 {
				t.Errorf("the event of Connect is %+v", e)
			}
			must.Do(t, <-served)
			server := <-accepted
			if e := server.Event(); e.Type != EventEstablished || server.Context != "of the listener" {
				t.Errorf("the event of Accept is %+v, the ID's context %v", e, server.Context)
			}
			message(t, client, server, "hello")
			must.Do(t, server.QP().PostRecv(recvNothing()))
			go func() {
				_, err := server.GetRecvComp(soon(t)) // the flush, when the client disconnects
				served <- errors.Join(err, server.Disconnect(), server.Destroy())
			}()
			must.Do(t, client.Disconnect())
			must.Do(t, client.Disconnect()) // no event follows, so it does not wait
			must.Do(t, <-served)
			destroy(t, client, l)
		})
	}
}

// TestC3_C4_C5_SynchronousLosses connects synchronous IDs, sends a message each way and
// disconnects from both sides at once, although a message of the connection manager, a SEND
// or an acknowledgement is lost once.
func TestC3_C4_C5_SynchronousLosses(t *testing.T) {
	eachLoss(t, func(t *testing.T, a, b *host) {
		l := b.syncID(TCP)
		must.Do(t, l.BindAddr(b.at(port)))
		must.Do(t, l.Listen(0))
		accepted := make(chan *ID, 1)
		served := make(chan error, 1)
		go func() {
			server, err := l.GetRequest(soon(t))
			if err == nil {
				err = errors.Join(server.CreateQP(nil, small()), server.Accept(nil))
				accepted <- server
			}
			served <- err
		}()
		client := a.syncID(TCP)
		shortTimeout(t, client, 15)
		must.Do(t, client.ResolveAddr(netip.AddrPort{}, b.at(port)))
		must.Do(t, client.ResolveRoute())
		must.Do(t, withQP(t, client).Connect(nil))
		must.Do(t, <-served)
		server := <-accepted
		message(t, client, server, "hello")
		message(t, server, client, "hello")
		go func() { served <- server.Disconnect() }()
		must.Do(t, client.Disconnect())
		must.Do(t, <-served)
		destroy(t, client, server, l)
	}, "REQ", "REP", "RTU", "DREQ", "DREP?", "SEND", "ACK") // two DREQs may cross, without a DREP
}

// TestC11_SynchronousErrors checks that calls return the errors of events.
func TestC11_SynchronousErrors(t *testing.T) {
	a, b := newPair(t)
	client := a.syncClient(b.at(port))
	err := client.Connect(nil)
	must.Fail(t, err, ib.ECONNREFUSED, "Connect where nobody listens")
	var why *RejectError
	if !errors.As(err, &why) || why.Reason != 8 || len(why.PrivateData) != 148 {
		t.Errorf("Connect without a listener: %v", err)
	}
	destroy(t, client)

	l := b.syncListener()
	go func() {
		if server, err := l.GetRequest(soon(t)); err == nil {
			_ = server.Reject(nil) // the client notices a failure
			_ = server.Destroy()
		}
	}()
	client = a.syncClient(b.at(port))
	must.Fail(t, client.Connect(nil), ib.ECONNREFUSED, "Connect to who rejects")
	destroy(t, client)

	client = a.syncID(TCP)
	must.Fail(t, client.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.9:0")), nil, "resolve")
	destroy(t, client)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = l.GetRequest(ctx)
	must.Fail(t, err, context.Canceled, "GetRequest with a context that has ended")
	destroy(t, l)

	other := b.listener(TCP, 0)
	_, err = other.GetRequest(soon(t))
	must.Fail(t, err, ib.EINVAL, "GetRequest of a listener with a channel")
	destroy(t, other)
}

// TestC11_SynchronousDestroy destroys an ID while a call waits, which then
// returns.
func TestC11_SynchronousDestroy(t *testing.T) {
	a, b := newPair(t)
	l := b.syncListener()
	client := a.syncClient(b.at(port))
	got := make(chan error, 1)
	go func() { got <- client.Connect(nil) }()
	server, err := l.GetRequest(soon(t))
	must.Do(t, err)
	destroy(t, client)
	must.Fail(t, <-got, ib.EINVAL, "Connect when the ID is destroyed")
	go func() {
		_, err := l.GetRequest(soon(t))
		got <- err
	}()
	destroy(t, server, l)
	must.Fail(t, <-got, ib.EINVAL, "GetRequest when the listener is destroyed")
}

// TestC11_SynchronousEarlyEnd checks that Accept fails if the client ends before RTU.
func TestC11_SynchronousEarlyEnd(t *testing.T) {
	a, b := newPair(t)
	l := b.syncListener()
	client := a.resolved(TCP, b.at(port))
	must.Do(t, client.Connect(&ConnParam{QPN: 0x77}))
	server, err := l.GetRequest(soon(t))
	must.Do(t, err)
	got := make(chan error, 1)
	withQP(t, server)
	go func() { got <- server.Accept(nil) }()
	a.take(EventConnectResponse)
	must.Do(t, client.Reject(nil))
	must.Fail(t, <-got, ib.ECONNREFUSED, "Accept of a client that rejects the answer")
	destroy(t, client, server, l)
}

// TestC11_GetRequestRacing makes two calls of GetRequest take their events before either
// continues: both IDs are valid.
func TestC11_GetRequestRacing(t *testing.T) {
	a, b := newPair(t)
	l := b.syncListener()
	var clients, servers []*ID
	var events []*Event
	for i := range ib.QPN(2) {
		client := a.resolved(TCP, b.at(port))
		must.Do(t, client.Connect(&ConnParam{QPN: 0x77 + i}))
		clients = append(clients, client)
		e, err := l.inbox.next(soon(t))
		must.Do(t, err)
		events = append(events, e)
	}
	for _, e := range events {
		must.Do(t, e.ID.inbox.adopt(e))
		servers = append(servers, e.ID)
	}
	destroy(t, servers...)
	destroy(t, l)
	destroy(t, clients...)
}
