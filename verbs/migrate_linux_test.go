package verbs

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/must"
)

// setDown takes an interface down.
func setDown(t testing.TB, ifname string) {
	t.Helper()
	link, err := netlink.LinkByName(ifname)
	must.Do(t, err)
	must.Do(t, netlink.LinkSetDown(link))
}

// events takes n events and counts them by type.
func (e *endpoint) events(t testing.TB, n int) map[ib.EventType]int {
	t.Helper()
	kinds := make(map[ib.EventType]int)
	for range n {
		ev := e.event(t)
		kinds[ev.Type]++
		ev.Ack()
	}
	return kinds
}

// TestV15_LinkDown takes the interface of a path down in the middle of WRITEs over UDP: the side that
// loses its address migrates at once, the other side follows with the next packet, and both get an
// event.
func TestV15_LinkDown(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	for i, ifname := range []string{"a1", "a2", "b1", "b2"} {
		sandbox.Tap(t, ifname, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 7, byte(i), 1}), 24))
	}
	a := newEndpoint(t, Config{Addr: "10.7.0.1,10.7.1.1", Wire: WireUDP}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.7.2.1,10.7.3.1", Wire: WireUDP}, ib.RC)
	connect(t, a, b, brief)
	arm(t, a, b)
	const size, writes = 1 << 20, 16 // the link goes down after half of them
	for i := range a.mr.Bytes() {
		a.mr.Bytes()[i] = byte(i * 7)
	}
	a.settle(t)
	for i := range uint64(writes) {
		must.Do(t, a.qp.PostSend(a.write(2+i, size, b)))
		if i == writes/2 {
			setDown(t, "a1")
		}
	}
	a.wait(t, writes)
	if got := a.events(t, 2); got[ib.EventPathMig] != 1 || got[ib.EventGIDChange] != 1 {
		t.Errorf("the side that lost an address has the events %v", got)
	}
	must.Do(t, a.qp.PostSend(a.write(2+writes, size, b))) // the earlier ones may have arrived before the link was down
	a.wait(t, 1)
	b.onAlternate(t, a)
	b.settle(t)
	if !bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]) {
		t.Error("the data is not what was written")
	}
	if p, err := a.ctx.QueryPort(); err != nil || p.State != ib.PortActive {
		t.Errorf("with one address left the port is %v, %v", p.State, err)
	}
	setDown(t, "a2")
	if got := a.events(t, 2); got[ib.EventGIDChange] != 1 || got[ib.EventPortErr] != 1 {
		t.Errorf("the side that lost its last address has the events %v", got)
	}
	if p, err := a.ctx.QueryPort(); err != nil || p.State != ib.PortDown {
		t.Errorf("without an address the port is %v, %v", p.State, err)
	}
}
