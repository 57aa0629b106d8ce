package rdmacm

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// newFaultyPair returns two hosts; fault rules apply to the packets of a.
func newFaultyPair(t testing.TB, rules string) (a, b *host) {
	t.Helper()
	n := verbs.NewNetwork()
	a = newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1,fd00::1", Faults: verbs.Faults{Rules: rules, Seed: 1}})
	return a, newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2,fd00::2"})
}

// acted returns how often the fault rules of a host acted.
func (h *host) acted() (n uint64) {
	for _, s := range h.m.Devices()[0].FaultStats() {
		n += s.Applied
	}
	return n
}

// eachLoss runs a test for each message that is lost once, at the port of the client and at
// that of the server. When it returns, one message must have been lost, or for messages that
// may not be sent at most one.
func eachLoss(t *testing.T, test func(t *testing.T, client, server *host), messages ...string) {
	for _, lost := range messages {
		lost, perhaps := strings.CutSuffix(lost, "?")
		for _, where := range []string{"client", "server"} {
			t.Run(lost+" at the "+where, func(t *testing.T) {
				faulty, other := newFaultyPair(t, "drop nth=1 dir=both op="+lost)
				client, server := faulty, other
				if where == "server" {
					client, server = other, faulty
				}
				test(t, client, server)
				if n := faulty.acted(); n > 1 || n == 0 && !perhaps {
					t.Errorf("%d messages were lost, want 1", n)
				}
			})
		}
	}
}

// TestC11_Unreachable gives up on a peer that does not answer. After its REQ it sends a
// REJ with the reason timeout.
func TestC11_Unreachable(t *testing.T) {
	for _, ps := range []PortSpace{TCP, UDP} {
		t.Run(ps.String(), func(t *testing.T) {
			a, b := newFaultyPair(t, "drop dir=out op=REQ,SIDR_REQ")
			l := b.listener(ps, 0)
			client := a.id(ps)
			shortTimeout(t, client, 2)
			withQP(t, a.resolve(client, b.at(port)))
			must.Do(t, client.Connect(nil))
			if e := a.take(EventUnreachable); e.Status != -int(ib.ETIMEDOUT) || !errors.Is(e.Err, ib.ETIMEDOUT) {
				t.Errorf("UNREACHABLE with status %d, %v", e.Status, e.Err)
			}
			n := a.counters()
			if kind := map[PortSpace]int{TCP: 0, UDP: 7}[ps]; n.Sent[kind] != 3 || n.Retries[kind] != 2 {
				t.Errorf("%d requests were sent, %d of them again; want 3 and 2", n.Sent[kind], n.Retries[kind])
			}
			b.quiet("no request came")
			destroy(t, client, l)
		})
	}
}

// TestC11_REPUnanswered gives up on a client whose RTU never comes.
func TestC11_REPUnanswered(t *testing.T) {
	a, b := newFaultyPair(t, "drop op=RTU; drop dir=in op=REJ")
	l := b.listener(TCP, 0)
	client := a.shortTimeout(b, 3)
	server := accepted(t, b, client, nil)
	a.take(EventEstablished)
	b.take(EventUnreachable)
	if s := server.QP().State(); s != ib.ERR {
		t.Errorf("the QP is in %v, want ERR", s)
	}
	destroy(t, client, server, l)
}

// TestC4_Q9_FirstPacket establishes the passive side by data when RTU is lost
// (Q9).
func TestC4_Q9_FirstPacket(t *testing.T) {
	a, b := newFaultyPair(t, "drop op=RTU")
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	server := accepted(t, b, client, nil)
	a.take(EventEstablished)
	b.quiet("before data")
	message(t, client, server, "in place of RTU")
	b.take(EventEstablished)
	must.Fail(t, server.Notify(ib.EventCommEst), ib.EISCONN, "Notify of an established connection")
	destroy(t, client, server, l)
}

// TestC4_Notify establishes the passive side by a call of Notify.
func TestC4_Notify(t *testing.T) {
	a, b := newFaultyPair(t, "drop op=RTU")
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	server := accepted(t, b, client, nil)
	a.take(EventEstablished)
	must.Do(t, server.Notify(ib.EventCommEst))
	b.take(EventEstablished)
	destroy(t, client, server, l)
}

// TestC3_C4_C5_C11_Losses connects, sends both ways and disconnects although a message of each
// kind is lost once, at either side.
func TestC3_C4_C5_C11_Losses(t *testing.T) {
	eachLoss(t, func(t *testing.T, a, b *host) {
		l := b.listener(TCP, 0)
		client := a.shortTimeout(b, 15)
		server := established(t, a, b, client)
		message(t, client, server, "connected")
		message(t, server, client, "connected")
		must.Do(t, client.Disconnect())
		b.take(EventDisconnected)
		must.Do(t, server.Disconnect())
		if e := a.take(EventDisconnected); e.Status != 0 {
			t.Errorf("DISCONNECTED with status %d", e.Status)
		}
		destroy(t, client, server, l)
	}, "REQ", "REP", "RTU", "DREQ", "DREP")
}

// TestC7_SecondIsRejected rejects a client while another one is served, as a server for one
// client does. The first connection goes on.
func TestC7_SecondIsRejected(t *testing.T) {
	a, b := newPair(t)
	first := connect2(t, a, b)
	other := newHost(t, verbs.Config{Network: a.net, Addr: "10.0.0.3"})
	second := withQP(t, other.resolved(TCP, b.at(port)))
	must.Do(t, second.Connect(nil))
	message(t, first.client, first.server, "before")
	request := b.take(EventConnectRequest).ID
	must.Do(t, request.Reject(nil))
	if e := other.take(EventRejected); e.Status != int(mad.RejConsumer) || !errors.Is(e.Err, ib.ECONNREFUSED) {
		t.Errorf("REJECTED with status %d, %v", e.Status, e.Err)
	}
	message(t, first.server, first.client, "after")
	a.quiet("another client is rejected")
	b.quiet("another client is rejected")
	destroy(t, second, request, first.client)
	b.take(EventDisconnected)
	destroy(t, first.server, first.listener)
}

// TestC11_DisconnectUnanswered ends a connection with a silent peer, and then waits until
// TIMEWAIT is over.
func TestC11_DisconnectUnanswered(t *testing.T) {
	a, b := newFaultyPair(t, "drop op=DREQ")
	l := b.listener(TCP, 0)
	client := a.shortTimeout(b, 3)
	server := established(t, a, b, client)
	must.Do(t, client.Disconnect())
	if e := a.take(EventDisconnected); e.Status != -int(ib.ETIMEDOUT) || !errors.Is(e.Err, ib.ETIMEDOUT) {
		t.Errorf("DISCONNECTED with status %d, %v", e.Status, e.Err)
	}
	a.take(EventTimewaitExit)
	must.Do(t, client.Disconnect()) // has no effect
	a.quiet("after the end")
	destroy(t, client, server, l)
}

// TestC5_Simultaneous disconnects from both sides at once: each gets one DISCONNECTED,
// and only TIMEWAIT is left.
func TestC5_Simultaneous(t *testing.T) {
	// Packets of a are held back until b has sent its DREQ.
	a, b := newFaultyPair(t, "delay 5ms dir=out op=DREQ")
	l := connect2(t, a, b)
	must.Do(t, l.client.Disconnect())
	must.Do(t, l.server.Disconnect())
	a.take(EventDisconnected)
	b.take(EventDisconnected)
	must.Do(t, l.client.Disconnect())
	must.Do(t, l.server.Disconnect())
	destroy(t, l.client, l.server, l.listener)
	a.quiet("after the end")
	b.quiet("after the end")
}

// TestC11_Destroy destroys IDs in each state, and checks the events of the peer.
func TestC11_Destroy(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	begin := func() (client, server *ID) {
		client = withQP(t, a.resolved(TCP, b.at(port)))
		must.Do(t, client.Connect(nil))
		return client, withQP(t, b.take(EventConnectRequest).ID)
	}

	client, server := begin()
	destroy(t, client) // sends a REJ for timeout, which raises no event: the request is not accepted
	waitUntil(t, func() bool { return errors.Is(server.Accept(nil), ib.EINVAL) })
	destroy(t, server)

	client, server = begin()
	destroy(t, server)
	if e := a.take(EventRejected); e.Status != int(mad.RejConsumer) {
		t.Errorf("a request was destroyed: rejected for %v", mad.RejReason(e.Status))
	}
	destroy(t, client)

	client = a.resolved(TCP, b.at(port))
	server = accepted(t, b, client, &ConnParam{QPN: 0x77})
	a.take(EventConnectResponse)
	destroy(t, server)
	a.take(EventRejected)
	destroy(t, client)

	client = a.resolved(TCP, b.at(port))
	server = accepted(t, b, client, &ConnParam{QPN: 0x77})
	a.take(EventConnectResponse)
	destroy(t, client)
	b.take(EventRejected)
	destroy(t, server)

	client, server = begin()
	must.Do(t, server.Accept(nil))
	a.take(EventEstablished)
	b.take(EventEstablished)
	destroy(t, client)
	b.take(EventDisconnected)
	destroy(t, server, l)
	a.quiet("after the end")
	b.quiet("after the end")
}

// TestC11_EarlyDisconnect disconnects before RTU has arrived: the connection ends as soon
// as it is established.
func TestC11_EarlyDisconnect(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := a.resolved(TCP, b.at(port))
	server := accepted(t, b, client, &ConnParam{QPN: 0x77})
	a.take(EventConnectResponse)
	must.Do(t, server.Disconnect())
	must.Do(t, client.Establish())
	a.take(EventDisconnected)
	must.Do(t, client.Disconnect())
	b.take(EventDisconnected)
	destroy(t, client, server, l)

	client = withQP(t, a.resolved(TCP, b.at(port)))
	l = b.listener(TCP, 0)
	must.Do(t, client.Connect(nil))
	server = withQP(t, b.take(EventConnectRequest).ID)
	must.Do(t, client.Disconnect()) // its QP is in ERR and cannot be connected
	must.Do(t, server.Accept(nil))
	if e := a.take(EventConnectError); e.Status != -1 || !errors.Is(e.Err, ib.EINVAL) {
		t.Errorf("CONNECT_ERROR with status %d, %v", e.Status, e.Err)
	}
	b.take(EventRejected)
	destroy(t, client, server, l)
}

// TestC11_DeviceRemoval closes an adapter under its IDs, or lets it fail.
func TestC11_DeviceRemoval(t *testing.T) {
	a, b := newPair(t)
	l := connect2(t, a, b)
	idle := b.id(TCP)
	must.Do(t, b.m.Devices()[0].Close())
	b.take(EventDeviceRemoval)
	b.take(EventDeviceRemoval) // the listener's and the connection's
	a.take(EventDisconnected)
	must.Fail(t, l.listener.Listen(0), ib.ENODEV, "a call on a listener without its adapter")
	must.Fail(t, idle.BindAddr(b.at(0)), ib.ENODEV, "bind to an adapter that is gone")
	_, err := l.server.GetRecvComp(soon(t))
	must.Fail(t, err, ib.ENODEV, "a completion of an adapter that is gone")
	destroy(t, l.client, l.server, l.listener, idle)
	b.quiet("after the end")
	must.Fail(t, b.m.Close(), ib.ENODEV, "closing the adapter a second time")
}

// TestC11_AutoDisconnect disconnects from an ID that answers at once: the program learns
// that it is over, and has nothing to do. A program that waits on Ready learns that its
// Manager is closed.
func TestC11_AutoDisconnect(t *testing.T) {
	a, b := newPair(t)
	l := connect2(t, a, b)
	must.Do(t, l.server.SetAutoDisconnect(true))
	must.Do(t, l.client.Disconnect())
	a.take(EventDisconnected) // without an answer much later
	b.take(EventDisconnected)
	must.Fail(t, l.server.Establish(), ib.EINVAL, "a call after the end")
	destroy(t, l.server)
	must.Fail(t, l.server.SetAutoDisconnect(false), ErrClosed, "a call on a destroyed ID")
	b.quiet("before the Manager is closed")
	for len(b.ch.Ready()) > 0 {
		<-b.ch.Ready()
	}
	must.Do(t, b.m.Close())
	waitUntil(t, func() bool { return len(b.ch.Ready()) > 0 })
	_, err := b.ch.Get(soon(t))
	must.Fail(t, err, ErrClosed, "Get without a Manager")
	destroy(t, l.client)
}

// TestC11_ManagerClose closes a Manager with IDs and unacknowledged events: it does not
// wait for them, and peers get DISCONNECTED or REJECTED.
func TestC11_ManagerClose(t *testing.T) {
	a, b := newPair(t)
	l := connect2(t, a, b)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	if _, err := b.ch.Get(soon(t)); err != nil { // the request, never acknowledged
		t.Fatal(err)
	}
	waiter, err := b.m.CreateID(nil, TCP)
	must.Do(t, err)
	must.Do(t, waiter.Listen(0))
	got := make(chan error, 1)
	go func() {
		_, err := waiter.GetRequest(soon(t))
		got <- err
	}()
	must.Do(t, b.m.Close())
	must.Fail(t, <-got, ib.EINVAL, "GetRequest when the Manager is closed")
	ends := map[EventType]int{}
	for range 2 {
		e, err := a.ch.Get(soon(t))
		must.Do(t, err)
		ends[e.Type]++
		e.Ack()
	}
	if ends[EventDisconnected] != 1 || ends[EventRejected] != 1 {
		t.Errorf("the peer heard %v", ends)
	}
	must.Fail(t, l.server.Destroy(), ib.EINVAL, "Destroy after the Manager is closed")
	destroy(t, l.client, client)
}

// TestC11_Leak establishes many connections, and checks that nothing is left of them.
func TestC11_Leak(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	for range 300 {
		client := a.shortTimeout(b, 15)
		server := established(t, a, b, client)
		message(t, client, server, "x")
		part(t, a, client, b, server)
		destroy(t, client, server)
	}
	destroy(t, l)
	for _, h := range []*host{a, b} {
		h.quiet("after the end")
		waitUntil(t, func() bool { return h.conns() == 0 })
		h.m.mu.Lock()
		ids, ports := len(h.m.ids), len(h.m.ports)
		h.m.mu.Unlock()
		if ids != 0 || ports != 0 {
			t.Errorf("%d IDs and %d ports are left", ids, ports)
		}
	}
}

// TestC11_NoTimewaitExit checks that a connection that was never established raises no
// TIMEWAIT_EXIT, although it also stays in TIMEWAIT: the peer knows its QP.
func TestC11_NoTimewaitExit(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	first, second := a.resolved(TCP, b.at(port)), a.id(TCP)
	must.Do(t, first.Connect(&ConnParam{QPN: 0x77}))
	server := b.take(EventConnectRequest).ID
	shortTimeout(t, second, 3)
	a.resolve(second, b.at(port))
	must.Do(t, second.Connect(&ConnParam{QPN: 0x78}))
	must.Do(t, b.take(EventConnectRequest).ID.Reject(nil))
	if e := a.take(EventRejected); e.ID != second || e.Status != int(mad.RejConsumer) {
		t.Errorf("rejected for %v", mad.RejReason(e.Status))
	}
	waitUntil(t, func() (over bool) {
		must.Do(t, second.at.dev.do(func(clock.Instant) error {
			over = second.link.conn.State() == cm.Idle
			return nil
		}))
		return over
	})
	for e, ok := a.ch.TryGet(); ok; e, ok = a.ch.TryGet() {
		if e.Ack(); e.ID == second {
			t.Errorf("%v after the end", e.Type)
		}
	}
	destroy(t, first, second, server, l)
}

// TestC11_OwnDestroy destroys the objects of CreateQP one by one, as a program does with
// ibv_destroy_qp.
func TestC11_OwnDestroy(t *testing.T) {
	a, b := newPair(t)
	id := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, id.QP().Destroy())
	must.Do(t, id.SendCQ().Destroy())
	must.Do(t, id.RecvCQ().Destroy())
	must.Do(t, id.DestroyQP())
	withQP(t, id)
	must.Do(t, id.QP().Destroy())
	must.Do(t, id.SendCQ().Destroy())
	destroy(t, id)
}

// TestC11_ManagerCloseEndsWaits closes the Manager while a call waits for an
// acknowledgement that never comes.
func TestC11_ManagerCloseEndsWaits(t *testing.T) {
	a, b := newPair(t)
	id := a.id(TCP)
	must.Do(t, id.ResolveAddr(netip.AddrPort{}, b.at(port)))
	if _, err := a.ch.Get(soon(t)); err != nil { // never acknowledged
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- id.Destroy() }()
	waitUntil(t, func() bool { return a.m.IDs() == 0 })
	must.Do(t, a.m.Close())
	must.Do(t, <-got)
	_, err := a.m.devices[0].defaultPD()
	must.Fail(t, err, ErrClosed, "a protection domain of a Manager that is closed")
}
