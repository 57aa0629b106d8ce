package verbs

import (
	"bytes"
	"net"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestUDP moves data of every kind through the kernel's UDP, with and without
// segmentation offload on one side or both.
func TestUDP(t *testing.T) {
	for _, c := range []struct {
		name string
		off  [2]bool // DisableOffload
	}{
		{"offload", [2]bool{false, false}},
		{"no offload", [2]bool{true, true}},
		{"offload one way", [2]bool{false, true}},
	} {
		for _, typ := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
			t.Run(c.name+"/"+typ.String(), func(t *testing.T) {
				a := newEndpoint(t, Config{Addr: loopback(), Wire: WireUDP, DisableOffload: c.off[0]}, typ)
				b := newEndpoint(t, Config{Addr: loopback(), Wire: WireUDP, DisableOffload: c.off[1]}, typ)
				for i, e := range []*endpoint{a, b} {
					p, err := e.ctx.QueryPort()
					must.Do(t, err)
					if c.off[i] && (p.MaxSegments != 1 || p.GRO) {
						t.Errorf("offload is disabled, yet the port has runs of %d segments, GRO %v", p.MaxSegments, p.GRO)
					}
				}
				connect(t, a, b, nil)
				exchange(t, a, b)
			})
		}
	}
}

// exchange moves data by each operation of the service.
func exchange(t *testing.T, a, b *endpoint) {
	t.Helper()
	ways := []func(t *testing.T, a, b *endpoint){testSend}
	switch a.qp.Type() {
	case ib.RC:
		ways = append(ways, testWrite, testRead, testAtomics, testWriteImm)
	case ib.UC:
		ways = append(ways, testWriteImm)
	}
	for _, way := range ways {
		for _, p := range [][2]*endpoint{{a, b}, {b, a}} {
			a.settle(t)
			b.settle(t)
			way(t, p[0], p[1])
		}
	}
}

// testWriteImm writes with immediate data, which gives the peer a completion.
func testWriteImm(t *testing.T, a, b *endpoint) {
	t.Helper()
	const n = 10000
	pattern(a.mr.Bytes()[:n], 9)
	must.Do(t, b.qp.PostRecv(b.recv(77, 0, 0)))
	wr := a.write(1, n, b)
	wr.Opcode, wr.ImmData = ib.WRRDMAWriteWithImm, 0xabcd
	must.Do(t, a.qp.PostSend(wr))
	a.wait(t, 1)
	wc := b.wait(t, 1)[0]
	if wc.WRID != 77 || wc.Opcode != ib.WCRecvRDMAWithImm || wc.ImmData != 0xabcd || wc.ByteLen != n {
		t.Errorf("completion of the WRITE with immediate: %+v", wc)
	}
	if !bytes.Equal(a.mr.Bytes()[:n], b.mr.Bytes()[:n]) {
		t.Error("WRITE with immediate placed other bytes")
	}
}

// needIPv6 skips a test on a host without IPv6, such as many containers; there the
// engine's own tests cover IPv6, without sockets.
func needIPv6(t *testing.T) {
	t.Helper()
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil { // the host lacks IPv6
		t.Skipf("no IPv6 on this host: %v", err)
	}
	must.Do(t, c.Close())
}

// TestUDPLoop connects QPs of one adapter with each other, on IPv4 and IPv6:
// its packets leave through the socket and come back.
func TestUDPLoop(t *testing.T) {
	for _, addr := range []string{"::1", loopback()} {
		for _, typ := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
			t.Run(addr+"/"+typ.String(), func(t *testing.T) {
				if addr == "::1" {
					needIPv6(t)
				}
				a := newEndpoint(t, Config{Addr: addr}, typ)
				b := a.sibling(t, typ)
				connect(t, a, b, nil)
				exchange(t, a, b)
				p, err := a.ctx.QueryPort()
				must.Do(t, err)
				if addr == "::1" && p.Verification != "full" {
					t.Errorf("the ICRC of IPv6 packets is verified by %q, want all of it", p.Verification)
				}
				if n := a.counter(t, "drop_icrc_errors"); n != 0 {
					t.Errorf("%d of our own packets failed the ICRC check", n)
				}
			})
		}
	}
}

// TestUDPTwoFamilies sends over IPv4 and IPv6 from one adapter with both addresses,
// selected by the SGID index of the path.
func TestUDPTwoFamilies(t *testing.T) {
	needIPv6(t)
	a := newEndpoint(t, Config{Addr: loopback() + ",::1", Wire: WireUDP}, ib.RC)
	if a.ctx.QueryGID(0).Addr().Is6() || !a.ctx.QueryGID(1).Addr().Is6() {
		t.Fatalf("GID table %v, %v: not in the order of Config.Addr", a.ctx.QueryGID(0), a.ctx.QueryGID(1))
	}
	for i := range uint8(2) {
		x, y := a.sibling(t, ib.RC), a.sibling(t, ib.RC)
		connect(t, x, y, func(attr *QPAttr) {
			attr.AV.SGIDIndex, attr.AV.DGID = i, a.ctx.QueryGID(int(i))
		})
		testWrite(t, x, y)
	}
}
