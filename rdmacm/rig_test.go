package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// waitLimit bounds every wait for something that must happen.
const waitLimit = 20 * time.Second

// port is the port of the tests' listeners.
const port = 7471

func TestMain(m *testing.M) {
	// The thread of another network lives as long as the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/softhca/softhca/internal/namespace.NewPlace.func1"))
}

// soon returns a context that ends after waitLimit.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// host is a Manager of one adapter, with an event channel.
type host struct {
	t    testing.TB
	m    *Manager
	ch   *EventChannel
	net  *verbs.Network // nil: UDP sockets
	addr netip.Addr     // the first of the adapter
}

// newHost opens an adapter. At the end of the test it is closed, and its connection
// manager must have no connections left.
func newHost(t testing.TB, cfg verbs.Config) *host {
	t.Helper()
	m, err := Open(cfg)
	must.Do(t, err)
	t.Cleanup(func() {
		if err := m.Close(); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ib.ENODEV) {
			t.Errorf("close: %v", err)
		}
	})
	return &host{t: t, m: m, ch: m.NewEventChannel(), net: cfg.Network, addr: m.devices[0].addrs[0]}
}

// newPair returns two hosts on a network in memory. Each has an IPv4 and an
// IPv6 address.
func newPair(t testing.TB) (a, b *host) {
	t.Helper()
	n := verbs.NewNetwork()
	return newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1,fd00::1"}),
		newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2,fd00::2"})
}

// addresses numbers the loopback addresses that this process has used.
var addresses atomic.Uint32

// loopback returns an address of 127.128.0.0/10 that no other test and no concurrent
// process with these tests uses.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 128+pid>>8&63, pid&255, addresses.Add(1)%250+1)
}

// newUDPPair returns two hosts on UDP sockets.
func newUDPPair(t testing.TB) (a, b *host) {
	t.Helper()
	udp := func() verbs.Config { return verbs.Config{Addr: loopback(), Wire: verbs.WireUDP} }
	return newHost(t, udp()), newHost(t, udp())
}

// newHostPair returns two hosts that communicate as the system prefers: on Linux, data takes shared memory.
func newHostPair(t testing.TB) (a, b *host) {
	t.Helper()
	return newHost(t, verbs.Config{Addr: loopback()}), newHost(t, verbs.Config{Addr: loopback()})
}

// at returns the host's address with a port.
func (h *host) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(h.addr, port) }

// id returns a new ID with the host's event channel.
func (h *host) id(ps PortSpace) *ID {
	h.t.Helper()
	id, err := h.m.CreateID(h.ch, ps)
	must.Do(h.t, err)
	return id
}

// typed returns a new ID of port space IB.
func (h *host) typed(typ ib.QPType) *ID {
	h.t.Helper()
	id := h.id(IB)
	must.Do(h.t, id.SetQPType(typ))
	return id
}

// listener returns an ID that listens.
func (h *host) listener(ps PortSpace, backlog int) *ID {
	h.t.Helper()
	return h.listen(h.id(ps), backlog)
}

// listen lets an ID listen.
func (h *host) listen(id *ID, backlog int) *ID {
	h.t.Helper()
	must.Do(h.t, id.BindAddr(h.at(port)))
	must.Do(h.t, id.Listen(backlog))
	return id
}

// take returns the next event, which must have the given type, and acknowledges it.
func (h *host) take(want EventType) *Event {
	h.t.Helper()
	e, err := h.ch.Get(soon(h.t))
	if err != nil {
		h.t.Fatalf("waiting for %v: %v", want, err)
	}
	e.Ack()
	if e.Type != want {
		h.t.Fatalf("event %v, status %d (%v); want %v", e.Type, e.Status, e.Err, want)
	}
	return e
}

// quiet fails the test if an event is pending.
func (h *host) quiet(why string) {
	h.t.Helper()
	if e, ok := h.ch.TryGet(); ok {
		h.t.Fatalf("%s: event %v, status %d (%v)", why, e.Type, e.Status, e.Err)
	}
}

// resolved returns an ID that may connect to a peer.
func (h *host) resolved(ps PortSpace, to netip.AddrPort) *ID {
	h.t.Helper()
	return h.resolve(h.id(ps), to)
}

// resolve resolves address and route of an ID, so that it may connect.
func (h *host) resolve(id *ID, to netip.AddrPort) *ID {
	h.t.Helper()
	must.Do(h.t, id.ResolveAddr(netip.AddrPort{}, to))
	h.take(EventAddrResolved)
	must.Do(h.t, id.ResolveRoute())
	h.take(EventRouteResolved)
	return id
}

// shortTimeout returns an ID with a QP that may connect to a peer. Its CM waits are short.
func (h *host) shortTimeout(to *host, retries uint8) *ID {
	h.t.Helper()
	id := h.id(TCP)
	shortTimeout(h.t, id, retries)
	return withQP(h.t, h.resolve(id, to.at(port)))
}

// small is a QP of the tests.
func small() *verbs.QPInitAttr {
	return &verbs.QPInitAttr{
		SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	}
}

// withQP gives an ID a QP.
func withQP(t testing.TB, id *ID) *ID {
	t.Helper()
	must.Do(t, id.CreateQP(nil, small()))
	return id
}

// connected is a connection between an ID of each of two hosts.
type connected struct{ client, server, listener *ID }

// connect2 connects IDs with QPs of a and b.
func connect2(t testing.TB, a, b *host) connected {
	t.Helper()
	l := b.listener(TCP, 0)
	client := withQP(t, a.resolved(TCP, b.at(port)))
	server := established(t, a, b, client)
	return connected{client, server, l}
}

// accepted connects an ID to b, which accepts it with a QP of its own.
func accepted(t testing.TB, b *host, client *ID, p *ConnParam) (server *ID) {
	t.Helper()
	must.Do(t, client.Connect(p))
	server = withQP(t, b.take(EventConnectRequest).ID)
	must.Do(t, server.Accept(nil))
	return server
}

// established connects an ID of a, which has a QP, to b, until both are ESTABLISHED.
func established(t testing.TB, a, b *host, client *ID) (server *ID) {
	t.Helper()
	server = accepted(t, b, client, nil)
	a.take(EventEstablished)
	b.take(EventEstablished)
	return server
}

// part disconnects an ID of a, and then its peer, an ID of b.
func part(t testing.TB, a *host, first *ID, b *host, second *ID) {
	t.Helper()
	must.Do(t, first.Disconnect())
	b.take(EventDisconnected)
	must.Do(t, second.Disconnect())
	a.take(EventDisconnected)
}

// destroy destroys IDs.
func destroy(t testing.TB, ids ...*ID) {
	t.Helper()
	for _, id := range ids {
		must.Do(t, id.Destroy())
	}
}

// conns returns the number of connections that the CM of a host's adapter holds, without
// those in TIMEWAIT.
func (h *host) conns() int {
	h.t.Helper()
	n := 0
	d := h.m.devices[0]
	must.Do(h.t, d.do(func(clock.Instant) error {
		n = d.hca.CM().Conns()
		return nil
	}))
	return n
}
