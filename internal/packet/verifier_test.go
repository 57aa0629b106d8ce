package packet

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// TestVerifier verifies the two packets of a run, whose identifications are 7 and 8: the one
// that the port sees must be that of the ICRC, and so must the don't-fragment flag.
func TestVerifier(t *testing.T) {
	v4 := fabric.Datagram{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xc000, DstPort: fabric.RoCEPort}
	v6 := fabric.Datagram{Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2"), SrcPort: 0xc000, DstPort: fabric.RoCEPort}
	for _, c := range []struct {
		what          string
		of            fabric.Datagram
		sealed        uint16 // the first identification
		sealedNoDF    bool
		seen          uint16
		known, noDF   bool
		damaged, want bool
	}{
		{what: "the identification is seen", of: v4, sealed: 7, seen: 7, known: true, want: true},
		{what: "another identification is seen", of: v4, sealed: 7, seen: 9, known: true},
		{what: "the identification is not seen", of: v4, sealed: 7, want: true},
		{what: "without DF, seen", of: v4, sealed: 7, sealedNoDF: true, noDF: true, want: true},
		{what: "without DF, not seen", of: v4, sealed: 7, sealedNoDF: true},
		{what: "with DF, seen without", of: v4, sealed: 7, seen: 7, known: true, noDF: true},
		{what: "damaged", of: v4, sealed: 7, damaged: true},
		{what: "IPv6", of: v6, want: true},
		{what: "IPv6, damaged", of: v6, damaged: true},
	} {
		d := c.of
		d.ID, d.IDKnown, d.NoDF = c.seen, c.known, c.noDF
		var v Verifier
		v.Begin(&d)
		for k := range 2 {
			seg := make([]byte, 64)
			pre := roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(seg))
			if c.sealedNoDF {
				pre = pre.WithoutDF()
			}
			id := c.sealed + uint16(k)
			roce.Seal(seg, pre.WithID(id))
			if c.damaged {
				seg[20] ^= 1
			}
			got, ok := v.Verify(&d, seg, k)
			if ok != c.want || ok && d.Src.Is4() && got != id {
				t.Errorf("%s: segment %d has the identification %d, correct: %v, want %d, %v", c.what, k, got, ok, id, c.want)
			}
		}
	}
}

// TestVerifierKeepsPrefixes verifies datagrams that differ from the one before in the path, the
// flag or the size of their packets, in random order.
func TestVerifierKeepsPrefixes(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	paths := []fabric.Datagram{
		{Src: a, Dst: b, SrcPort: 0xc000, DstPort: fabric.RoCEPort},
		{Src: c, Dst: b, SrcPort: 0xc000, DstPort: fabric.RoCEPort},
		{Src: a, Dst: c, SrcPort: 0xc000, DstPort: fabric.RoCEPort},
		{Src: a, Dst: b, SrcPort: 0xc001, DstPort: fabric.RoCEPort},
		{Src: a, Dst: b, SrcPort: 0xc000, DstPort: fabric.RoCEPort + 1},
		{Src: a, Dst: b, SrcPort: 0xc000, DstPort: fabric.RoCEPort, NoDF: true},
	}
	sizes := []int{28, 32, 36, 64, 92, 1084}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var v Verifier
	for range 2000 {
		d := paths[r.IntN(len(paths))]
		d.IDKnown, d.ID = true, uint16(r.Uint32())
		seg := make([]byte, sizes[r.IntN(len(sizes))])
		pre := roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(seg))
		if d.NoDF {
			pre = pre.WithoutDF()
		}
		roce.Seal(seg, pre.WithID(d.ID))
		v.Begin(&d)
		if _, ok := v.Verify(&d, seg, 0); !ok {
			t.Fatalf("seed %d: a packet of %d bytes from %v port %d to %v port %d is refused", seed, len(seg), d.Src, d.SrcPort, d.Dst, d.DstPort)
		}
	}
}

// TestPrefixes adds five sizes: the first one is forgotten.
func TestPrefixes(t *testing.T) {
	var c Prefixes
	var kept []int
	path := &fabric.Path{Src: netip.IPv6Loopback(), Dst: netip.IPv6Loopback()}
	for size := 16; size <= 32; size += 4 {
		if got, want := c.Add(size, Prefix(path, size, 0)), Prefix(path, size, 0); got != want {
			t.Errorf("Add of %d bytes returns another prefix", size)
		}
	}
	for size := range 40 {
		pre, ok := c.Find(size)
		if !ok || size == 0 {
			continue
		}
		kept = append(kept, size)
		if pre != Prefix(path, size, 0) {
			t.Errorf("Find of %d bytes returns another prefix", size)
		}
	}
	if want := []int{20, 24, 28, 32}; !slices.Equal(kept, want) {
		t.Errorf("prefixes of %v bytes are kept, want %v", kept, want)
	}
}
