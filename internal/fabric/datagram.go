package fabric

import "net/netip"

// RoCEPort is the UDP port of RoCEv2, the destination port of every datagram.
const RoCEPort = 4791

// Datagram is a received datagram: one UDP payload, or several of equal size
// that the system merged (GRO). Addresses never carry a zone; the port keeps
// the scope of link-local addresses to itself.
type Datagram struct {
	Bytes     []byte     // the segments, end to end; owned by the port until its next Receive; read-only
	Stride    int        // size of every segment but the last, which may be shorter; 0 means one segment
	Src       netip.Addr // IPv4 or IPv6, never v4-mapped
	Dst       netip.Addr // the local (or multicast) address it was sent to
	SrcPort   uint16
	DstPort   uint16
	ID        uint16 // IPv4 identification of the first segment, if IDKnown
	IDKnown   bool   // the port saw the IP header
	Bare      bool   // the segments have no ICRC
	NoDF      bool   // it is IPv4 without "don't fragment", if the port sees that
	TClass    uint8  // IPv4 TOS or IPv6 traffic class
	HopLimit  uint8  // IPv4 TTL or IPv6 hop limit
	FlowLabel uint32 // IPv6, if the port saw it
	Barred    *Slots // slots at Src that send only packets for QP1 this way: others in their name are forged
}

// Segment returns the segment at byte offset off and the offset of the next.
func (d *Datagram) Segment(off int) (seg []byte, next int) {
	next = len(d.Bytes)
	if d.Stride > 0 && off+d.Stride < next {
		next = off + d.Stride
	}
	return d.Bytes[off:next], next
}

// Segments returns the number of segments in d.
func (d *Datagram) Segments() int {
	if d.Stride == 0 {
		return 1
	}
	return (len(d.Bytes) + d.Stride - 1) / d.Stride
}
