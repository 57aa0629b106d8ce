package packet

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// SealRun writes the ICRCs of the segments of a bare run, which is to leave the memory of this host
// after all.
func SealRun(r *fabric.Run) {
	for i := range r.Count {
		seg := r.Segment(i)
		roce.Seal(seg, Prefix(&r.Path, len(seg), i))
	}
	r.Bare = false
}

// SealDatagram appends a copy of the bytes of a bare datagram to buf, with ICRCs, and makes d refer
// to it. It returns the longer buf. Segments that are too short for a packet stay as they are.
func SealDatagram(d *fabric.Datagram, buf []byte) []byte {
	start := len(buf)
	buf = append(buf, d.Bytes...)
	d.Bytes, d.Bare = buf[start:], false
	k := uint16(0)
	for off := 0; off < len(d.Bytes); k++ {
		var seg []byte
		if seg, off = d.Segment(off); len(seg) >= roce.MinSize {
			roce.Seal(seg, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(seg)).WithID(d.ID+k))
		}
	}
	return buf
}
