package hca_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/roce"
)

// portMTU returns the path MTU of an adapter with a port of this MTU, 0 if there
// is none.
func portMTU(n int) ib.MTU {
	h, err := hca.New(hca.Config{Caps: fabric.Caps{MTU: n}, Rand: rand.Uint32, NodeGUID: 1})
	if err != nil {
		return 0
	}
	return h.ActiveMTU()
}

// TestV18_RoomForHeaders shows that a port's path MTU leaves room for the longest
// headers that the opcode table has in front of a payload of that size, which are
// those of reliable datagrams.
func TestV18_RoomForHeaders(t *testing.T) {
	beside := 0
	for o := range 256 {
		if info := roce.Opcode(o).Info(); info.Known && (info.Payload == roce.PayloadMTU || info.Payload == roce.PayloadUpToMTU || info.Payload == roce.PayloadLast) {
			beside = max(beside, int(info.HeaderLen)+roce.ICRCLen)
		}
	}
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		n := mtu.Bytes() + beside
		if most, less := portMTU(n), portMTU(n-1); most != mtu || less != mtu-1 {
			t.Errorf("packets with %d bytes beside %d of payload: ports of %d and %d bytes have path MTU codes %d and %d, want %d and %d",
				beside, mtu.Bytes(), n, n-1, most, less, mtu, mtu-1)
		}
	}
	const ipv4, ipv6 = 28, 48 // with UDP
	for mtu, want := range map[int]ib.MTU{1280: ib.MTU1024, 1500: ib.MTU1024, 4200: ib.MTU4096, 9000: ib.MTU4096, 65536: ib.MTU4096} {
		if v4, v6 := portMTU(mtu-ipv4), portMTU(mtu-ipv6); v4 != want || v6 != want {
			t.Errorf("an interface of MTU %d has path MTU codes %d (IPv4) and %d (IPv6), want %d", mtu, v4, v6, want)
		}
	}
}

// TestSecondGID shows that a port with one address can have a second GID, from which
// queue pairs send too, and that a port with two addresses has no third.
func TestSecondGID(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, c := range []struct {
		addrs  []netip.Addr
		second bool
		want   []netip.Addr
	}{
		{[]netip.Addr{one}, false, []netip.Addr{one}}, {[]netip.Addr{one}, true, []netip.Addr{one, one}}, {[]netip.Addr{one, two}, true, []netip.Addr{one, two}},
	} {
		h, err := hca.New(hca.Config{Caps: fabric.Caps{MTU: 4200, Addrs: c.addrs}, Rand: rand.Uint32, NodeGUID: 1, SecondGID: c.second})
		if err != nil {
			t.Fatal(err)
		}
		pd, err := h.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		if h.GIDs() != len(c.want) || !h.GID(len(c.want)).IsZero() || !h.GID(-1).IsZero() {
			t.Errorf("%v: %d GIDs, want %d", c.addrs, h.GIDs(), len(c.want))
		}
		for i, a := range c.want {
			if h.GID(i) != ib.GIDFromAddr(a) {
				t.Errorf("%v: GID %d is %v, want %v", c.addrs, i, h.GID(i), a)
			}
		}
		for i := range 3 {
			_, err := pd.CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(two), SGIDIndex: uint8(i), HopLimit: 64, Port: 1})
			if (err == nil) != (i < len(c.want)) {
				t.Errorf("%v: an address handle from GID %d: %v", c.addrs, i, err)
			}
		}
	}
}
