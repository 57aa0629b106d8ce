package rdmacm

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// bound returns a bound ID, or the error of binding it.
func (h *host) bound(ps PortSpace, addr string, set func(*ID)) (*ID, error) {
	h.t.Helper()
	id := h.id(ps)
	if set != nil {
		set(id)
	}
	return id, id.BindAddr(netip.MustParseAddrPort(addr))
}

// TestC11_Bind binds IDs to addresses and ports that other IDs have or do not have.
func TestC11_Bind(t *testing.T) {
	reuse := func(id *ID) { must.Do(t, id.SetReuseAddr(true)) }
	only := func(id *ID) { must.Do(t, id.SetAFOnly(true)) }
	both := func(id *ID) { must.Do(t, id.SetAFOnly(false)) }
	for _, tt := range []struct {
		what          string
		first, second string
		set1, set2    func(*ID)
		ps            PortSpace // of the second
		err           error
	}{
		{"the same address", "10.0.0.1:5", "10.0.0.1:5", nil, nil, TCP, ib.EADDRINUSE},
		{"another port", "10.0.0.1:5", "10.0.0.1:6", nil, nil, TCP, nil},
		{"another port space", "10.0.0.1:5", "10.0.0.1:5", nil, nil, UDP, nil},
		{"another address", "10.0.0.1:5", "[fd00::1]:5", nil, nil, TCP, nil},
		{"all after one", "10.0.0.1:5", "0.0.0.0:5", nil, nil, TCP, ib.EADDRNOTAVAIL},
		{"one after all", "0.0.0.0:5", "10.0.0.1:5", nil, nil, TCP, ib.EADDRNOTAVAIL},
		{"all after all", "0.0.0.0:5", "[::]:5", nil, nil, TCP, ib.EADDRNOTAVAIL},
		{"all after all of another family only", "0.0.0.0:5", "[::]:5", only, only, TCP, nil},
		{"all of IPv6 only after all of IPv4", "0.0.0.0:5", "[::]:5", nil, only, TCP, nil},
		{"all of IPv4 after all of IPv6 only", "[::]:5", "0.0.0.0:5", only, nil, TCP, nil},
		{"all of IPv6 only after all of both", "0.0.0.0:5", "[::]:5", both, only, TCP, ib.EADDRNOTAVAIL},
		{"of IPoIB", "10.0.0.1:5", "10.0.0.1:6", nil, nil, IPoIB, ib.EINVAL},
		{"with one reuse", "10.0.0.1:5", "10.0.0.1:5", reuse, nil, TCP, ib.EADDRINUSE},
		{"with reuse", "10.0.0.1:5", "10.0.0.1:5", reuse, reuse, TCP, nil},
		{"mapped", "10.0.0.1:5", "[::ffff:10.0.0.1]:5", nil, nil, TCP, ib.EADDRINUSE},
		{"nobody's address", "10.0.0.1:5", "192.0.2.1:5", nil, nil, TCP, ib.EADDRNOTAVAIL},
		{"all by a loopback address", "10.0.0.1:5", "127.0.0.1:5", nil, nil, TCP, ib.EADDRNOTAVAIL},
		{"all by that of IPv6", "10.0.0.1:5", "[::1]:5", nil, nil, TCP, ib.EADDRNOTAVAIL},
	} {
		t.Run(tt.what, func(t *testing.T) {
			a, _ := newPair(t)
			id, err := a.bound(TCP, tt.first, tt.set1)
			must.Do(t, err)
			other, err := a.bound(tt.ps, tt.second, tt.set2)
			if !errors.Is(err, tt.err) {
				t.Errorf("bind to %s after %s: %v, want %v", tt.second, tt.first, err, tt.err)
			}
			destroy(t, id)
			if err != nil && tt.second != "192.0.2.1:5" && tt.ps != IPoIB {
				must.Do(t, other.BindAddr(netip.MustParseAddrPort(tt.second))) // now free
			}
			destroy(t, other)
		})
	}
}

// TestC11_Ephemeral takes every ephemeral port.
func TestC11_Ephemeral(t *testing.T) {
	a, _ := newPair(t)
	seen := map[uint16]bool{}
	var last *ID
	for range lastEphemeral - firstEphemeral + 1 {
		id, err := a.bound(TCP, "10.0.0.1:0", nil)
		must.Do(t, err)
		p := id.LocalAddr().Port()
		if seen[p] || p < firstEphemeral || p > lastEphemeral {
			t.Fatalf("port %d, which is taken or no ephemeral one", p)
		}
		seen[p], last = true, id
	}
	id, err := a.bound(TCP, "10.0.0.1:0", nil)
	must.Fail(t, err, ib.EADDRNOTAVAIL, "a port when none is left")
	must.Do(t, last.Destroy())
	must.Do(t, id.BindAddr(a.at(0)))
	_, err = a.bound(IB, "10.0.0.1:0", nil)
	must.Do(t, err)
}

// TestC11_ReuseListen checks that only one of the IDs that share a port can listen.
func TestC11_ReuseListen(t *testing.T) {
	a, _ := newPair(t)
	reuse := func(id *ID) { must.Do(t, id.SetReuseAddr(true)) }
	one, err := a.bound(TCP, "10.0.0.1:5", reuse)
	must.Do(t, err)
	two, err := a.bound(TCP, "10.0.0.1:5", reuse)
	must.Do(t, err)
	must.Fail(t, one.Listen(0), ib.EADDRINUSE, "Listen on a port that is shared")
	must.Fail(t, two.SetReuseAddr(false), ib.EINVAL, "a port shared and then not")
	destroy(t, two)
	must.Do(t, one.Listen(0))
	three, err := a.bound(TCP, "10.0.0.1:5", reuse)
	must.Fail(t, err, ib.EADDRINUSE, "a listener's port")
	destroy(t, three)
	destroy(t, one)
}

// TestC11_Listeners finds the listener of a request by port, address and
// family.
func TestC11_Listeners(t *testing.T) {
	const refused = "refused"
	for _, tt := range []struct {
		what      string
		listen    []string // addresses of listening IDs
		only      string   // SetAFOnly: "only", "both", or empty if it is not called
		to        string
		wantIndex int // of listen; -1: rejected by the consumer, -2: rejected for lack of a service
	}{
		{"one address", []string{"10.0.0.2:5"}, "", "10.0.0.2:5", 0},
		{"another port", []string{"10.0.0.2:5"}, "", "10.0.0.2:6", -2},
		{"another address", []string{"10.0.0.2:5"}, "", "[fd00::2]:5", -1},
		{"two addresses", []string{"10.0.0.2:5", "[fd00::2]:5"}, "", "[fd00::2]:5", 1},
		{"all of IPv4", []string{"0.0.0.0:5"}, "", "10.0.0.2:5", 0},
		{"all of IPv4, by IPv6", []string{"0.0.0.0:5"}, "", "[fd00::2]:5", -1},
		{"all", []string{"[::]:5"}, "", "10.0.0.2:5", 0},
		{"all of IPv6 only", []string{"[::]:5"}, "only", "10.0.0.2:5", -1},
		{"all of each family", []string{"[::]:5", "0.0.0.0:5"}, "only", "10.0.0.2:5", 1},
		{"all of IPv4, said to be of both, by IPv6", []string{"0.0.0.0:5"}, "both", "[fd00::2]:5", 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			a, b := newPair(t)
			var all []*ID
			for _, addr := range tt.listen {
				id, err := b.bound(TCP, addr, func(id *ID) {
					if tt.only != "" {
						must.Do(t, id.SetAFOnly(tt.only == "only"))
					}
				})
				must.Do(t, err)
				must.Do(t, id.Listen(0))
				all = append(all, id)
			}
			client := withQP(t, a.resolved(TCP, netip.MustParseAddrPort(tt.to)))
			must.Do(t, client.Connect(nil))
			switch tt.wantIndex {
			case -1, -2:
				if e := a.take(EventRejected); e.Status != map[int]int{-1: 28, -2: 8}[tt.wantIndex] {
					t.Errorf("%s with status %d", refused, e.Status)
				}
			default:
				e := b.take(EventConnectRequest)
				if e.Listener != all[tt.wantIndex] {
					t.Errorf("the request went to the listener at %v", e.Listener.LocalAddr())
				}
				destroy(t, e.ID)
			}
			destroy(t, client)
			destroy(t, all...)
		})
	}
}

// TestC11_ListenIdle listens with an unbound ID, as librdmacm does.
func TestC11_ListenIdle(t *testing.T) {
	a, b := newPair(t)
	l := b.id(TCP)
	must.Do(t, l.Listen(0))
	if p := l.LocalAddr(); !p.Addr().IsUnspecified() || !p.Addr().Is4() || p.Port() == 0 {
		t.Errorf("it is bound to %v", p)
	}
	client := withQP(t, a.resolved(TCP, b.at(l.LocalAddr().Port())))
	must.Do(t, client.Connect(nil))
	destroy(t, b.take(EventConnectRequest).ID, client, l)
}

// TestC11_ListenTwice lets two Managers of an adapter listen on one port.
func TestC11_ListenTwice(t *testing.T) {
	_, b := newPair(t)
	l := b.listener(TCP, 0)
	m, err := New(b.m.Devices()...)
	must.Do(t, err)
	other, err := m.CreateID(nil, TCP)
	must.Do(t, err)
	must.Do(t, other.BindAddr(b.at(port)))
	must.Fail(t, other.Listen(0), ib.EADDRINUSE, "Listen on a port of another Manager")
	destroy(t, l)
	must.Do(t, other.Listen(0))
	must.Do(t, m.Close())
}

// TestC11_Resolve checks the chosen adapter and source address.
func TestC11_Resolve(t *testing.T) {
	n := verbs.NewNetwork()
	one, err := verbs.Open(verbs.Config{Network: n, Addr: "10.0.0.1,fd00::1"})
	must.Do(t, err)
	two, err := verbs.Open(verbs.Config{Network: n, Addr: "127.0.0.1,10.0.0.2"})
	must.Do(t, err)
	m, err := New(one, two)
	must.Do(t, err)
	h := &host{t: t, m: m, ch: m.NewEventChannel()}
	for _, tt := range []struct {
		bind, src, dst string
		from           string // expected, without the port
		peer           string // expected peer address; empty: dst
		err            error
		status         int
	}{
		{dst: "10.0.0.9:1", from: "10.0.0.1"},
		{dst: "127.0.0.9:1", from: "127.0.0.1"},
		{dst: "[fd00::9]:1", from: "fd00::1"},
		{dst: "[::ffff:10.0.0.9]:1", from: "10.0.0.1", peer: "10.0.0.9:1"},
		{dst: "10.0.0.2:1", from: "10.0.0.2"},
		{dst: "0.0.0.0:1", from: "10.0.0.1", peer: "10.0.0.1:1"},
		{dst: "239.1.1.1:1", from: "10.0.0.1"},
		{src: "10.0.0.2:0", dst: "10.0.0.9:1", from: "10.0.0.2"},
		{src: "0.0.0.0:0", dst: "10.0.0.9:1", from: "10.0.0.1"},
		{bind: "10.0.0.2:77", src: "10.0.0.1:0", dst: "10.0.0.9:1", from: "10.0.0.2"},
		{bind: "[::]:0", dst: "[fd00::9]:1", from: "fd00::1"},
		{bind: "[::]:0", dst: "10.0.0.9:1", err: ib.EINVAL},
		{bind: "0.0.0.0:0", dst: "[fd00::9]:1", err: ib.EINVAL},
		{src: "fd00::1", dst: "10.0.0.9:1", err: ib.EINVAL},
		{src: "[fd00::1]:0", dst: "10.0.0.9:1", err: ib.EINVAL},
		{src: "[::]:0", dst: "10.0.0.9:1", err: ib.EINVAL},
		{bind: "10.0.0.2:0", dst: "[fd00::9]:1", err: ib.EINVAL},
		{src: "192.0.2.1:0", dst: "10.0.0.9:1", err: ib.EADDRNOTAVAIL},
		{err: ib.EINVAL},
	} {
		id := h.id(TCP)
		if tt.bind != "" {
			must.Do(t, id.BindAddr(netip.MustParseAddrPort(tt.bind)))
		}
		src, _ := netip.ParseAddrPort(tt.src)
		dst, _ := netip.ParseAddrPort(tt.dst)
		if tt.src == "fd00::1" { // without any address
			src = netip.AddrPortFrom(netip.MustParseAddr(tt.src), 0)
		}
		err := id.ResolveAddr(src, dst)
		if !errors.Is(err, tt.err) || err != nil && tt.err == nil {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil && tt.err == nil {
			h.take(EventAddrResolved)
			peer := tt.peer
			if peer == "" {
				peer = tt.dst
			}
			if id.LocalAddr().Addr().String() != tt.from || id.LocalAddr().Port() == 0 || id.PeerAddr().String() != peer || id.Port() != 1 {
				t.Errorf("%+v: from %v to %v, port %d", tt, id.LocalAddr(), id.PeerAddr(), id.Port())
			}
		}
		destroy(t, id)
	}
	id := h.id(IPoIB)
	must.Do(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.9:1")))
	if e := h.take(EventAddrError); e.Status != -int(ib.EINVAL) {
		t.Errorf("ADDR_ERROR of IPoIB has status %d, want -EINVAL", e.Status)
	}
	destroy(t, id)
	must.Do(t, errors.Join(m.Close(), one.Close(), two.Close()))
}

// TestC11_ResolveOnHost resolves on the host's network, with an adapter on a loopback
// address only.
func TestC11_ResolveOnHost(t *testing.T) {
	a, b := newUDPPair(t)
	id := a.resolved(TCP, b.at(1))
	if id.LocalAddr().Addr() != a.addr || id.Device() != a.m.Devices()[0] {
		t.Errorf("from %v, want %v", id.LocalAddr(), a.addr)
	}
	destroy(t, id)
	id = a.id(TCP)
	err := id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("192.0.2.1:1"))
	if err == nil { // the host has a route, which the adapter cannot use
		a.take(EventAddrError)
	} else {
		must.Fail(t, err, syscall.ENETUNREACH, "an address that no route leads to")
	}
	must.Do(t, id.ResolveAddr(netip.AddrPort{}, b.at(1))) // it may try again
	a.take(EventAddrResolved)
	destroy(t, id)
}

// TestC11_Loopback uses a loopback address that no adapter has: as on Linux it stands
// for all adapters of this side. If adapters are on the loopback network, it is an
// ordinary address.
func TestC11_Loopback(t *testing.T) {
	a, b := newPair(t)
	l, err := b.bound(TCP, "127.0.0.1:7471", nil)
	must.Do(t, err)
	must.Do(t, l.Listen(0))
	for _, from := range []*host{a, b} {
		to := b.at(port)
		if from == b {
			to = netip.MustParseAddrPort("127.0.0.1:7471")
		}
		id := from.id(TCP)
		must.Do(t, id.ResolveAddr(netip.AddrPort{}, to))
		from.take(EventAddrResolved)
		if id.LocalAddr().Addr() != from.addr || id.PeerAddr() != b.at(port) {
			t.Errorf("from %v to %v", id.LocalAddr(), id.PeerAddr())
		}
		destroy(t, id)
	}
	destroy(t, l)
	u, _ := newUDPPair(t)
	other, err := u.bound(TCP, "127.0.0.1:7471", nil)
	must.Fail(t, err, ib.ENODEV, "a loopback address of no adapter, beside one that has one")
	destroy(t, other)
}

// TestAddrErrorSaysWhy checks that errors name an address that no adapter can reach, and
// a port space that does not exist on RoCE.
func TestAddrErrorSaysWhy(t *testing.T) {
	for ps, why := range map[PortSpace]string{TCP: "no open adapter has a route to 192.0.2.9: ", IPoIB: "RoCE has no port space ipoib: "} {
		if e := addrError(ps, netip.MustParseAddr("192.0.2.9")); e.Err == nil || !strings.HasPrefix(e.Err.Error(), why) {
			t.Errorf("port space %v: %v, want %q", ps, e.Err, why)
		}
	}
}
