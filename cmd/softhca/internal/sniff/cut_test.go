package sniff

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// TestCut cuts what an offloading sender left whole into the packets that go out.
func TestCut(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789"), 25)
	for _, addrs := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
		h := ipudp.Header{Src: netip.MustParseAddr(addrs[0]), Dst: netip.MustParseAddr(addrs[1]), SrcPort: 0xc000, DstPort: 4791, ID: 0xffff, HopLimit: 64}
		var head [ipudp.MaxLen]byte
		n := h.Put(head[:], len(payload))
		packet := append(head[:n:n], payload...)
		for _, c := range []struct{ size, packets int }{{0, 1}, {250, 1}, {1000, 1}, {100, 3}, {125, 2}, {1, 250}} {
			var got []byte
			k := 0
			cut(append(bytes.Clone(packet), "of the link layer"...), c.size, func(ip []byte) {
				g, part, ok := ipudp.Parse(ip)
				if !ok || len(ip) != n+len(part) || g.Src != h.Src || g.DstPort != 4791 {
					t.Fatalf("cut to %d bytes, packet %d is % x", c.size, k, ip)
				}
				if want := h.ID + uint16(k); h.Src.Is4() && g.ID != want {
					t.Errorf("packet %d has the identification %#04x, not %#04x", k, g.ID, want)
				}
				got = append(got, part...)
				k++
			})
			if k != c.packets || !bytes.Equal(got, payload) {
				t.Errorf("%v, cut to %d bytes: %d packets, not %d, with %d bytes", h.Src, c.size, k, c.packets, len(got))
			}
		}
		for k := range packet {
			cut(packet[:k], 100, func(ip []byte) { t.Errorf("of %d bytes % x is a packet", k, ip) })
		}
	}
}
