package packet

import (
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Verifier checks the ICRC of received packets. The prefixes of a path last until a datagram
// arrives on another one.
type Verifier struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	noDF             bool
	prefixes         Prefixes // of packets that have these addresses, ports and flag
}

// Begin begins a datagram.
func (v *Verifier) Begin(d *fabric.Datagram) {
	if v.src != d.Src || v.dst != d.Dst || v.srcPort != d.SrcPort || v.dstPort != d.DstPort || v.noDF != d.NoDF {
		*v = Verifier{src: d.Src, dst: d.Dst, srcPort: d.SrcPort, dstPort: d.DstPort, noDF: d.NoDF}
	}
}

// Verify reports whether the ICRC of segment k of the datagram is correct, or not needed. It
// returns the segment's IPv4 identification, which it derives from the ICRC if the port does not
// see it.
func (v *Verifier) Verify(d *fabric.Datagram, seg []byte, k int) (id uint16, ok bool) {
	if d.Bare {
		return d.ID + uint16(k), true
	}
	pre, ok := v.prefixes.Find(len(seg))
	if !ok {
		pre = v.prefixes.Add(len(seg), v.prefix(len(seg)))
	}
	if !d.IDKnown {
		return roce.DeriveID(seg, pre, uint16(k)) // a socket with GSO numbers the segments of a run
	}
	id = d.ID + uint16(k)
	return id, roce.Check(seg, pre.WithID(id))
}

// prefix returns the ICRC prefix of packets of size bytes in the current datagram.
func (v *Verifier) prefix(size int) roce.Prefix {
	pre := roce.NewPrefix(v.src, v.dst, v.srcPort, v.dstPort, size)
	if v.noDF {
		return pre.WithoutDF()
	}
	return pre
}
