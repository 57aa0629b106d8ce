package ident

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/roce"
)

// Move changes the ICRC of segment i of r from one identification to another.
// It does nothing for IPv6, which has none, nor for bytes that cannot be a
// sealed packet. Does not allocate.
func Move(r *fabric.Run, i int, from, to uint16) {
	seg := r.Segment(i)
	if r.Path.Src.Is4() && len(seg) >= roce.MinSize && len(seg)&3 == 0 && len(seg) <= ipudp.MaxPayload {
		roce.MoveID(seg, from, to)
	}
}

// Cut removes the first n segments of r, fewer than it has, which were sent.
// The others get the identifications of a run that begins with them: r is a
// proper run again. Does not allocate.
func Cut(r *fabric.Run, n int) {
	for i := n; i < r.Count; i++ {
		Move(r, i, uint16(i), uint16(i-n))
	}
	r.Bytes = r.Bytes[n*r.Size:]
	r.Count -= n
	r.Size = min(r.Size, len(r.Bytes))
}
