package mad

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

func TestC11_IPHeader(t *testing.T) {
	for _, c := range []struct {
		name     string
		src, dst string // "" for the zero address
		wire     [IPHeaderSize]byte
		back     [2]string // the addresses that come back, if they are others
	}{
		{
			name: "IPv4", src: "10.77.0.3", dst: "10.77.0.2",
			wire: [IPHeaderSize]byte{1: 0x40, 2: 0xeb, 0x51, 16: 10, 77, 0, 3, 32: 10, 77, 0, 2},
		},
		{
			name: "IPv6", src: "fd00:77::3", dst: "fd00:77::2",
			wire: [IPHeaderSize]byte{1: 0x60, 2: 0xeb, 0x51, 4: 0xfd, 0, 0, 0x77, 19: 3, 20: 0xfd, 0, 0, 0x77, 35: 2},
		},
		{
			name: "a zone is not sent", src: "fe80::3%eth0", dst: "fe80::2",
			wire: [IPHeaderSize]byte{1: 0x60, 2: 0xeb, 0x51, 4: 0xfe, 0x80, 19: 3, 20: 0xfe, 0x80, 35: 2},
			back: [2]string{"fe80::3", "fe80::2"},
		},
		{
			name: "v4-mapped", src: "::ffff:10.0.0.1", dst: "::ffff:10.0.0.2",
			wire: [IPHeaderSize]byte{
				1: 0x60, 2: 0xeb, 0x51, 14: 0xff, 0xff, 10, 0, 0, 1, 30: 0xff, 0xff, 10, 0, 0, 2,
			},
		},
		{
			name: "both families", src: "10.0.0.1", dst: "::2",
			wire: [IPHeaderSize]byte{1: 0x60, 2: 0xeb, 0x51, 14: 0xff, 0xff, 10, 0, 0, 1, 35: 2},
			back: [2]string{"::ffff:10.0.0.1", "::2"},
		},
		{
			name: "no addresses",
			wire: [IPHeaderSize]byte{1: 0x40, 2: 0xeb, 0x51},
			back: [2]string{"0.0.0.0", "0.0.0.0"},
		},
	} {
		h := IPHeader{SrcPort: 60241, SrcAddr: addr(c.src), DstAddr: addr(c.dst)}
		wire := [IPHeaderSize]byte{0: 0xff, 5: 0xff, 35: 0xff}
		h.Put(&wire)
		if wire != c.wire {
			t.Errorf("%s: the header is written as\n% x, want\n% x", c.name, wire, c.wire)
		}
		if c.back != [2]string{} {
			h.SrcAddr, h.DstAddr = addr(c.back[0]), addr(c.back[1])
		}
		if got, err := ParseIPHeader(&wire); err != nil || got != h {
			t.Errorf("%s: the header is read as %+v, %v; want %+v", c.name, got, err, h)
		}
	}
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

// TestC11_IPHeaderVersions shows which of all versions are refused, and that
// the reserved bits make no difference.
func TestC11_IPHeaderVersions(t *testing.T) {
	for version := range 256 {
		for family := range 256 {
			b := [IPHeaderSize]byte{0: byte(version), 1: byte(family), 16: 10, 32: 10}
			h, err := ParseIPHeader(&b)
			want := version == 0 && (family>>4 == 4 || family>>4 == 6)
			if (err == nil) != want || err != nil && (!errors.Is(err, ErrIPHeader) || h != IPHeader{}) {
				t.Fatalf("version %#02x, IP version %#02x: %+v, %v", version, family, h, err)
			}
			if want && h.SrcAddr.Is4() != (family>>4 == 4) {
				t.Fatalf("IP version %#02x gives the address %v", family, h.SrcAddr)
			}
		}
	}
}

func TestC11_IPHeaderRoundTrip(t *testing.T) {
	t.Logf("seed %d", testSeed)
	r := rand.New(rand.NewPCG(testSeed, 3))
	for i := range 1000 {
		m := randomMAD(r)
		b := [IPHeaderSize]byte(m[:])
		b[0], b[1] = 0, 0x60
		if i%2 == 0 {
			b[1] = 0x40
			clear(b[4:16])
			clear(b[20:32])
		}
		h, err := ParseIPHeader(&b)
		must.Do(t, err)
		var again [IPHeaderSize]byte
		h.Put(&again)
		if again != b {
			t.Fatalf("read and written, the header is\n% x, want\n% x", again, b)
		}
	}
}
