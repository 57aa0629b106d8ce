package packet

import (
	"net/netip"
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
		v.Begin()
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
