//go:build linux && !portable

package udp_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/sandbox"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
)

func TestCapsOnLoopback(t *testing.T) {
	c := open(t, udp.Config{RecvBuffer: 100_000}).Caps()
	if c.Name != "udp" || c.Interface != "lo" || c.SrcPort != fabric.RoCEPort {
		t.Errorf("name %q, interface %q, port %d", c.Name, c.Interface, c.SrcPort)
	}
	if c.MTU != 65507 {
		t.Errorf("MTU %d: the largest UDP payload over IPv4 is 65507", c.MTU)
	}
	if c.RecvBuffer != 200_000 {
		t.Errorf("receive buffer %d: Linux counts twice the 100000 asked for", c.RecvBuffer)
	}
	if c.Verify != fabric.VerifyDerivedID {
		t.Errorf("an IPv4 UDP port verifies %v", c.Verify)
	}
	if c.MaxSegments != 64 || !c.GRO {
		t.Errorf("runs of %d segments, GRO %t: the kernel's loopback offloads both", c.MaxSegments, c.GRO)
	}
	if n := open(t, udp.Config{GSO: udp.GSOOff}).Caps().MaxSegments; n != 1 {
		t.Errorf("runs of %d segments with GSO off", n)
	}
}

func TestOffloadKeepsRunsTogether(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	batch := fabric.NewBatch(1<<17, a.Caps())
	ws := fill(t, batch, group{path: path(a, b), size: 1040, count: 50, last: 16})
	sendAll(t, a, batch)
	gs := collect(t, b, len(ws))
	check(t, ws, gs, ownIndex)
	if d := gs[0].d; d.Stride != 1040 || len(d.Bytes) != 50*1040+16 {
		t.Errorf("stride %d of %d bytes: the run did not arrive as one", d.Stride, len(d.Bytes))
	}
}

func TestClassAndHopLimitTravel(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	batch := fabric.NewBatch(1<<17, a.Caps())
	var ws []want
	for i, c := range []struct{ class, hops uint8 }{{0, 64}, {0x68, 64}, {0, 1}, {0xC2, 255}, {2, 0}} {
		p := path(a, b)
		p.TClass, p.HopLimit = c.class, c.hops
		ws = append(ws, fill(t, batch, group{path: p, size: 64 + 4*i, count: 1 + i})...)
	}
	sendAll(t, a, batch)
	for i, g := range collect(t, b, len(ws)) {
		// Hop limit 0 means "this subnet", which the kernel calls 1.
		class, hops := ws[i].path.TClass, max(ws[i].path.HopLimit, 1)
		if g.d.TClass != class || g.d.HopLimit != hops {
			t.Errorf("segment %d: class %#x, hop limit %d, sent with %#x and %d", i, g.d.TClass, g.d.HopLimit, class, hops)
		}
	}
}

// IPv6 has one loopback address: the port sends to itself.
func TestIPv6(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	p, err := udp.Open(udp.Config{Addrs: []netip.Addr{netip.IPv6Loopback()}})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	if c := p.Caps(); c.Verify != fabric.VerifyFull || c.MTU != 65536-48 {
		t.Errorf("verifies %v, MTU %d: IPv6 is always checked in full", c.Verify, c.MTU)
	}
	batch := fabric.NewBatch(1<<17, p.Caps())
	way := path(p, p)
	way.TClass, way.HopLimit = 0x6A, 3
	ws := fill(t, batch,
		group{path: path(p, p), size: 96, count: 1},
		group{path: way, size: 4112, count: 9, last: 400},
	)
	sendAll(t, p, batch)
	gs := collect(t, p, len(ws))
	check(t, ws, gs, zero)
	for i := range gs {
		if d := &gs[i].d; d.TClass != ws[i].path.TClass || d.HopLimit != ws[i].path.HopLimit || d.FlowLabel != 0 {
			t.Errorf("segment %d: class %#x, hop limit %d, flow label %#x", i, d.TClass, d.HopLimit, d.FlowLabel)
		}
	}
	wide := wide(1 << 17)
	slow := open6(t, p)
	ws = fill(t, wide, group{path: path(slow, slow), size: 200, count: 5})
	sendAll(t, slow, wide)
	check(t, ws, collect(t, slow, len(ws)), zero)
}

// open6 opens the address of p again, without offload.
func open6(t *testing.T, p *udp.Port) *udp.Port {
	t.Helper()
	must.Do(t, p.Close())
	again, err := udp.Open(udp.Config{Addrs: p.Caps().Addrs, GSO: udp.GSOOff, DisableGRO: true})
	must.Do(t, err)
	t.Cleanup(func() { _ = again.Close() })
	return again
}

// Packets for a neighbour that does not answer ARP stay in the send buffer, so
// it fills up.
func TestFullSendBufferKeepsTheRest(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	for _, gso := range []udp.GSO{udp.GSOOn, udp.GSOOff} {
		t.Run("gso "+gso.String(), func(t *testing.T) { fillUp(t, gso) })
	}
}

func fillUp(t *testing.T, gso udp.GSO) {
	p, err := udp.Open(udp.Config{Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.1")}, SendBuffer: 20_000, GSO: gso})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	if c := p.Caps(); c.Interface != "tap0" || c.MTU != 1500-28 {
		t.Errorf("interface %s, MTU %d", c.Interface, c.MTU)
	}
	dst := netip.AddrFrom4([4]byte{10, 9, 0, 2 + byte(gso)}) // one per case: a full queue is the neighbour's
	batch := wide(1 << 18)
	way := fabric.Path{Src: p.Caps().Addrs[0], Dst: dst, HopLimit: 64}
	ws := fill(t, batch, group{path: way, size: 1040, count: 200})
	if err := p.Send(batch); !errors.Is(err, fabric.ErrBlocked) {
		t.Fatalf("sending 200 kB into a 20 kB buffer: %v", err)
	}
	left := 0
	sent := int(p.Stats().SentPackets)
	for _, r := range batch.Pending() {
		for i := range r.Count {
			// After any split, the rest must still be valid runs.
			g := got{bytes: r.Segment(i), d: fabric.Datagram{Src: way.Src, Dst: way.Dst, SrcPort: 4791, DstPort: 4791}}
			check(t, []want{{ws[sent+left].bytes, way, i}}, []got{g}, ownIndex)
			left++
		}
	}
	if sent == 0 || sent+left != len(ws) {
		t.Errorf("%d packets sent and %d left of %d", sent, left, len(ws))
	}
	begin := time.Now()
	must.Do(t, p.Wait(20*time.Millisecond, false, true))
	if d := time.Since(begin); d < 15*time.Millisecond {
		t.Errorf("the wait for room ended after %v though there is none", d)
	}
}

// A run whose segments exceed the MTU is refused; that must not be taken for
// a refusal of the offload.
func TestRefusedRunDoesNotEndTheOffload(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	sandbox.Tap(t, "tap0", netip.MustParsePrefix("10.9.0.1/24"))
	addrs := []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("127.0.0.1")}
	p, err := udp.Open(udp.Config{Addrs: addrs, GSO: udp.GSOOn})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Close() })
	batch := fabric.NewBatch(1<<17, p.Caps())
	far := fabric.Path{Src: addrs[0], Dst: netip.MustParseAddr("10.9.0.2"), HopLimit: 64}
	self := fabric.Path{Src: addrs[1], Dst: addrs[1], HopLimit: 64}
	fill(t, batch, group{path: far, size: 2000, count: 4})
	ws := fill(t, batch, group{path: self, size: 2000, count: 4})
	must.Do(t, p.Send(batch))
	if n := p.Stats().SendErrors; n != 4 {
		t.Errorf("%d packets counted as refused, not 4", n)
	}
	gs := collect(t, p, len(ws))
	check(t, ws, gs, ownIndex)
	if gs[0].d.Stride != 2000 {
		t.Errorf("stride %d: the run after the refused one was not offloaded", gs[0].d.Stride)
	}
}

func TestOverflowIsCounted(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{RecvBuffer: 8192})
	batch := fabric.NewBatch(1<<17, a.Caps())
	for i := range 40 { // runs of one, so that each is a datagram
		fill(t, batch, group{path: path(a, b), size: 1040 + 4*i, count: 1})
	}
	sendAll(t, a, batch)
	ds := make([]fabric.Datagram, 16)
	seen := 0
	for n := 1; n > 0; seen += n {
		var err error
		if n, err = b.Receive(ds); err != nil {
			t.Fatal(err)
		}
	}
	if seen == 40 {
		t.Fatal("41 kB fitted a buffer of 16 kB: the test tests nothing")
	}
	fill(t, batch, group{path: path(a, b), size: 64, count: 1}) // it carries the count
	sendAll(t, a, batch)
	collect(t, b, 1)
	if n := b.Stats().Overflows; n != uint64(40-seen) {
		t.Errorf("%d overflows counted, but %d datagrams are missing", n, 40-seen)
	}
	for range 3 { // it carries the count too, which has not changed
		fill(t, batch, group{path: path(a, b), size: 64, count: 1})
		sendAll(t, a, batch)
		collect(t, b, 1)
	}
	if n := b.Stats().Overflows; n != uint64(40-seen) {
		t.Errorf("after three more datagrams, of which none was lost, %d overflows are counted, want %d still", n, 40-seen)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	batch := fabric.NewBatch(1<<17, a.Caps())
	ds := make([]fabric.Datagram, 16)
	p := path(a, b)
	tests := []struct {
		name   string
		groups []struct{ size, count int }
	}{
		{"one packet", []struct{ size, count int }{{64, 1}}},
		{"runs", []struct{ size, count int }{{1040, 20}, {96, 60}, {2064, 3}}},
	}
	for _, c := range tests {
		round := func() {
			n := 0
			for _, g := range c.groups {
				n += g.count
				for range g.count {
					if seg, _ := batch.Append(&p, g.size); seg == nil {
						t.Fatal("the batch is full")
					}
				}
			}
			must.Do(t, a.Send(batch))
			for n > 0 {
				k, err := b.Receive(ds)
				must.Do(t, err)
				for i := range ds[:k] {
					n -= segments(&ds[i])
				}
			}
		}
		if avg := testing.AllocsPerRun(200, round); avg != 0 {
			t.Errorf("%s: %v allocations per round of Send and Receive", c.name, avg)
		}
	}
}
