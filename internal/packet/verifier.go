package packet

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Verifier checks the ICRC of received packets. Packets of a datagram that have one size share
// a prefix.
type Verifier struct {
	size   int // of the packets that the prefix is for; 0 if there is none yet
	prefix roce.Prefix
}

// Begin begins a datagram.
func (v *Verifier) Begin() { v.size = 0 }

// Verify reports whether the ICRC of segment k of the datagram is correct, or not needed. It
// returns the segment's IPv4 identification, which it derives from the ICRC if the port does not
// see it.
func (v *Verifier) Verify(d *fabric.Datagram, seg []byte, k int) (id uint16, ok bool) {
	if d.Bare {
		return d.ID + uint16(k), true
	}
	if v.size != len(seg) {
		v.size, v.prefix = len(seg), roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(seg))
		if d.NoDF {
			v.prefix = v.prefix.WithoutDF()
		}
	}
	if !d.IDKnown {
		return roce.DeriveID(seg, v.prefix, uint16(k)) // a socket with GSO numbers the segments of a run
	}
	id = d.ID + uint16(k)
	return id, roce.Check(seg, v.prefix.WithID(id))
}
