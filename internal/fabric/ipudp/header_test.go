package ipudp_test

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
)

// The headers of packets that a Linux adapter sent.
var known = []struct {
	name, hex string
	h         ipudp.Header
}{
	{
		"IPv4", "4500003412344000401114830a0000010a000002d87212b700200000",
		ipudp.Header{
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
			SrcPort: 0xd872, DstPort: 4791, ID: 0x1234, HopLimit: 64,
		},
	},
	{
		"IPv6", "66812345002811ff20010db800000000000000000000000120010db8000000000000000000000002e34512b700280000",
		ipudp.Header{
			Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
			SrcPort: 0xe345, DstPort: 4791, TClass: 0x68, FlowLabel: 0x12345, HopLimit: 255,
		},
	},
}

func TestHeadersAreThoseOfLinux(t *testing.T) {
	for _, k := range known {
		t.Run(k.name, func(t *testing.T) {
			want, err := hex.DecodeString(k.hex)
			must.Do(t, err)
			n := 0x34 - 28 // payload of the first
			if k.h.Src.Is6() {
				n = 0x28 - 8
			}
			b := make([]byte, ipudp.MaxLen)
			if got := b[:k.h.Put(b, n)]; !bytes.Equal(got, want) {
				t.Errorf("wrote %x, Linux %x", got, want)
			}
			packet := append(want, make([]byte, n+6)...) // six bytes of padding
			h, payload, ok := ipudp.Parse(packet)
			if !ok || h != k.h || len(payload) != n {
				t.Errorf("read %+v and %d bytes (%t)", h, len(payload), ok)
			}
			for cut := range len(want) + n {
				if _, _, ok := ipudp.Parse(packet[:cut]); ok {
					t.Errorf("the first %d bytes of the packet passed for all of it", cut)
				}
			}
		})
	}
}

func TestParseRefusesWhatRoCEHasNot(t *testing.T) {
	for _, c := range []struct {
		name  string
		which int
		at    int
		value byte
	}{
		{"options", 0, 0, 0x46},
		{"version 5", 0, 0, 0x55},
		{"more fragments", 0, 6, 0x20},
		{"a later fragment", 0, 7, 1},
		{"TCP", 0, 9, 6},
		{"a total length within the header", 0, 3, 10},
		{"a UDP length within the header", 0, 25, 7},
		{"a UDP length beyond the packet", 0, 24, 1},
		{"an extension header", 1, 6, 0},
	} {
		b, err := hex.DecodeString(known[c.which].hex)
		must.Do(t, err)
		b = append(b, make([]byte, 64)...)
		b[c.at] = c.value
		if _, _, ok := ipudp.Parse(b); ok {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// A packet with its checksum sums up to all ones: the definition, computed
// here byte by byte.
func TestChecksum(t *testing.T) {
	for _, k := range known {
		for _, n := range []int{0, 1, 2, 3, 5, 16, 1001, ipudp.MaxPayload} {
			b := make([]byte, ipudp.MaxLen+n)
			h := k.h
			b = b[:h.Put(b, n)+n]
			for i := range n {
				b[h.Len()+i] = byte(i*13 + 1)
			}
			h.SetChecksum(b)
			udp := b[h.Len()-ipudp.UDPLen:]
			pseudo := append(append(h.Src.AsSlice(), h.Dst.AsSlice()...), 0, 17, byte(len(udp)>>8), byte(len(udp)))
			sum := 0
			for i, v := range append(pseudo, udp...) {
				sum += int(v) << (8 * (1 - i%2))
			}
			for sum > 0xFFFF {
				sum = sum>>16 + sum&0xFFFF
			}
			if sum != 0xFFFF || !h.ChecksumOK(b) {
				t.Errorf("%s, %d bytes: the sum is %#x, right %t", k.name, n, sum, h.ChecksumOK(b))
			}
			b[len(b)-1] ^= 0x10
			if h.ChecksumOK(b) {
				t.Errorf("%s, %d bytes: a changed byte passes", k.name, n)
			}
			udp[6], udp[7] = 0, 0
			if !h.ChecksumOK(b) {
				t.Errorf("%s, %d bytes: without a checksum it is refused", k.name, n)
			}
		}
	}
}

// A header without "don't fragment" is written and read as such.
func TestDontFragment(t *testing.T) {
	for _, no := range []bool{false, true} {
		h := known[0].h
		h.NoDF = no
		b := make([]byte, h.Len())
		h.Put(b, 0)
		if got, _, ok := ipudp.Parse(b); !ok || got != h || b[6] != 0x40 == !no {
			t.Errorf("NoDF %t: flags %#x, read as %+v (%t)", no, b[6], got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, k := range known {
		b, err := hex.DecodeString(k.hex)
		must.Do(f, err)
		f.Add(append(b, make([]byte, 32)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, ok := ipudp.Parse(b)
		if !ok {
			return
		}
		again := make([]byte, ipudp.MaxLen+len(payload))
		n := h.Put(again, len(payload))
		copy(again[n:], payload)
		h2, payload2, ok := ipudp.Parse(again[:n+len(payload)])
		if !ok || h2 != h || !bytes.Equal(payload2, payload) {
			t.Errorf("%+v with %d bytes was written and read as %+v with %d", h, len(payload), h2, len(payload2))
		}
	})
}
