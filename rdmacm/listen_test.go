package rdmacm

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/verbs"
)

// shortTimeout sets a CM response timeout of about 70 ms: a lost message does not delay the
// test by seconds, and a busy machine still answers in time. TIMEWAIT lasts as long as
// the adapter's ACK delay, 134 ms.
func shortTimeout(t testing.TB, id *ID, retries uint8) {
	t.Helper()
	if id.PortSpace() == TCP {
		must.Do(t, id.SetAckTimeout(10))
	}
	must.Do(t, id.SetResponseTimeout(14, retries))
}

// TestC11_Backlog fills a listener's backlog: further peers repeat their requests, which
// are queued when there is room.
func TestC11_Backlog(t *testing.T) {
	a, b := newPair(t)
	const backlog, extra = 3, 2
	l := b.listener(TCP, backlog)
	var clients []*ID
	for range backlog + extra {
		client := a.shortTimeout(b, 15)
		must.Do(t, client.Connect(nil))
		clients = append(clients, client)
	}
	waitUntil(t, func() bool { return b.counters().Received[0] >= backlog+extra })
	if got := b.pending(l); got != backlog {
		t.Errorf("%d requests wait, want %d", got, backlog)
	}
	established := 0
	for accepted := 0; accepted < len(clients) || established < len(clients); {
		e, err := b.ch.Get(soon(t))
		must.Do(t, err)
		e.Ack()
		if e.Type == EventEstablished {
			established++
			continue
		}
		if e.Type != EventConnectRequest || b.pending(l) > backlog {
			t.Fatalf("event %v; %d requests wait, the backlog is %d", e.Type, b.pending(l), backlog)
		}
		accepted++
		must.Do(t, withQP(t, e.ID).Accept(nil))
	}
	for range clients {
		a.take(EventEstablished)
	}
	destroy(t, clients...)
	destroy(t, l)
}

// pending returns the number of pending requests of a listener.
func (h *host) pending(l *ID) int {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return l.inbox.backlog.waiting
}

// counters returns the counters of the adapter's CM.
func (h *host) counters() cm.Counters {
	h.t.Helper()
	var n cm.Counters
	d := h.m.devices[0]
	must.Do(h.t, d.do(func(clock.Instant) error {
		n = d.hca.CM().Counters()
		return nil
	}))
	return n
}

// waitUntil waits until a condition holds.
func waitUntil(t testing.TB, so func() bool) {
	t.Helper()
	ctx := soon(t)
	for !so() {
		if ctx.Err() != nil {
			t.Fatal("it did not come to that")
		}
	}
}

// TestC11_ListenerDestroyed checks that destroying a listener rejects its pending
// requests.
func TestC11_ListenerDestroyed(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	must.Do(t, client.Connect(nil))
	waitUntil(t, func() bool { return b.pending(l) == 1 })
	destroy(t, l)
	b.quiet("after the listener was destroyed")
	if e := a.take(EventRejected); e.Status != int(mad.RejConsumer) {
		t.Errorf("rejected for %v", mad.RejReason(e.Status))
	}
	destroy(t, client)
	if n := b.conns(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// TestC11_BadRequests sends requests that rdma_cm never sends: each is rejected, and none
// raises an event.
func TestC11_BadRequests(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	head := func(h mad.IPHeader) []byte {
		var p [mad.IPHeaderSize]byte
		h.Put(&p)
		return p[:]
	}
	good := mad.IPHeader{SrcPort: 9, SrcAddr: a.addr, DstAddr: b.addr}
	version := head(good)
	version[0] = 0x10
	family := head(good)
	family[1] = 0x50
	other := good
	other.DstAddr = netip.MustParseAddr("10.0.0.3")
	none := good
	none.DstAddr = netip.IPv4Unspecified()
	for _, tt := range []struct {
		what      string
		transport mad.TransportService
		data      []byte
	}{
		{"no IP header", mad.TransportRC, nil},
		{"another version", mad.TransportRC, version},
		{"another IP version", mad.TransportRC, family},
		{"an address that is not the adapter's", mad.TransportRC, head(other)},
		{"no address", mad.TransportRC, head(none)},
		{"another transport", mad.TransportUC, head(good)},
	} {
		got := make(chan *cm.Event, 4)
		d := a.m.devices[0]
		must.Do(t, d.do(func(now clock.Instant) error {
			c := d.hca.CM().NewConn(func(_ clock.Instant, _ *cm.Conn, e *cm.Event) {
				copied := *e
				got <- &copied
			})
			return c.SendREQ(now, &cm.REQParams{
				Service: mad.IPServiceID(TCP, port), Transport: tt.transport, QPN: 0x77,
				Path: cm.Path{Local: a.addr, Remote: b.addr, MTU: ib.MTU1024}, PrivateData: tt.data,
			})
		}))
		if e := <-got; e.Type != cm.REJReceived || e.REJ.Reason != mad.RejConsumer {
			t.Errorf("%s: event %v, %+v; want REJ of the consumer", tt.what, e.Type, e.REJ)
		}
		b.quiet(tt.what)
	}
	destroy(t, l)
}

// TestC11_TwoAdapters listens with one ID on both adapters of a Manager. It keeps
// listening when one of them is closed.
func TestC11_TwoAdapters(t *testing.T) {
	n := verbs.NewNetwork()
	one, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.2"})
	must.Do(t, err)
	two, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.3"})
	must.Do(t, err)
	m, err := New(one, two)
	must.Do(t, err)
	b := &host{t: t, m: m, ch: m.NewEventChannel()}
	a := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1"})
	l := b.id(TCP)
	must.Do(t, l.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), port)))
	must.Do(t, l.Listen(0))
	if l.Device() != nil || l.Port() != 0 {
		t.Error("an ID that listens everywhere has an adapter")
	}
	connect := func(to string, on *verbs.Context) (client, server *ID) {
		client = withQP(t, a.resolved(TCP, netip.AddrPortFrom(netip.MustParseAddr(to), port)))
		must.Do(t, client.Connect(nil))
		server = withQP(t, b.take(EventConnectRequest).ID)
		if server.Device() != on {
			t.Errorf("the request to %s came to another adapter", to)
		}
		must.Do(t, server.Accept(nil))
		a.take(EventEstablished)
		b.take(EventEstablished)
		return client, server
	}
	c1, s1 := connect("10.0.0.2", one)
	c2, s2 := connect("10.0.0.3", two)

	must.Do(t, one.Close())
	if e := b.take(EventDeviceRemoval); e.ID != s1 || !errors.Is(e.Err, ib.ENODEV) || e.Status != 0 {
		t.Errorf("DEVICE_REMOVAL of %p, status %d, %v", e.ID, e.Status, e.Err)
	}
	if e := a.take(EventDisconnected); e.ID != c1 {
		t.Error("the peer of the closed adapter got no message")
	}
	must.Fail(t, s1.Disconnect(), ib.ENODEV, "a call on an ID without its adapter")
	destroy(t, s1, c1)
	message(t, c2, s2, "the other adapter goes on")
	c3, s3 := connect("10.0.0.3", two)
	destroy(t, c2, c3)
	b.take(EventDisconnected)
	b.take(EventDisconnected)
	destroy(t, s2, s3)
	b.quiet("a listener everywhere has an adapter left")
	must.Do(t, two.Close())
	if e := b.take(EventDeviceRemoval); e.ID != l || !errors.Is(e.Err, ib.ENODEV) {
		t.Errorf("without an adapter: DEVICE_REMOVAL of %p, %v; want that of the listener", e.ID, e.Err)
	}
	destroy(t, l)
	must.Do(t, m.Close())
}

// TestC11_GetRequestWithoutAdapter removes the adapter of a synchronous listener: calls that
// wait, and later ones, return ENODEV.
func TestC11_GetRequestWithoutAdapter(t *testing.T) {
	dev, err := verbs.Open(verbs.Config{Addr: "10.0.0.2", Network: verbs.NewNetwork()})
	must.Do(t, err)
	m, err := New(dev)
	must.Do(t, err)
	l, err := m.CreateID(nil, TCP)
	must.Do(t, err)
	must.Do(t, l.Listen(0))
	got := make(chan error, 2)
	get := func() {
		_, err := l.GetRequest(soon(t))
		got <- err
	}
	go get()
	go get()
	must.Do(t, dev.Close())
	for _, what := range []string{"one call that waits", "another call that waits"} {
		must.Fail(t, <-got, ib.ENODEV, what)
	}
	get()
	must.Fail(t, <-got, ib.ENODEV, "a later call")
	destroy(t, l)
	must.Do(t, m.Close())
}
