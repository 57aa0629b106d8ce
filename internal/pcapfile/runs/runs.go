package runs

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// Split calls each for each packet of p, which was captured as one, and reports whether
// p is a run of several. With segmentation or receive offload (GSO, GRO) captures have
// runs of packets behind one set of headers, all but the last of the same size. Split
// recognises a run if the ICRC is right for a smaller first packet, and the next packet
// goes to the same queue pair.
//
// It is for packets whose ICRC is wrong as captured. The argument of each is valid
// during the call.
func Split(p *pcapfile.Packet, each func(*pcapfile.Packet)) bool {
	if p.Truncated {
		return false
	}
	for size := roce.MinSize; size+roce.MinSize <= len(p.Payload); size += 4 {
		const from, to = 5, 8 // of the BTH: the destination QPN
		if bytes.Equal(p.Payload[from:to], p.Payload[size+from:size+to]) && right(segment(p, 0, size)) {
			for at := 0; at < len(p.Payload); at += size {
				each(segment(p, at, size))
			}
			return true
		}
	}
	return false
}

// segment returns the packet of a run that begins at an offset of the payload.
func segment(p *pcapfile.Packet, at, size int) *pcapfile.Packet {
	s := *p
	s.Payload = p.Payload[at:min(at+size, len(p.Payload))]
	s.IP, s.UDP = slices.Clone(p.IP), slices.Clone(p.UDP)
	n := ipudp.UDPLen + len(s.Payload)
	binary.BigEndian.PutUint16(s.UDP[4:], uint16(n))
	if s.IP[0]>>4 == 6 {
		binary.BigEndian.PutUint16(s.IP[4:], uint16(n))
		return &s
	}
	binary.BigEndian.PutUint16(s.IP[2:], uint16(len(s.IP)+n))
	id := binary.BigEndian.Uint16(p.IP[4:])
	binary.BigEndian.PutUint16(s.IP[4:], id+uint16(at/size)) // as Linux numbers them
	if at > 0 && !right(&s) {
		binary.BigEndian.PutUint16(s.IP[4:], id) // other systems give all packets the same ID
		if !right(&s) {
			binary.BigEndian.PutUint16(s.IP[4:], id+uint16(at/size))
		}
	}
	return &s
}

// right reports whether the ICRC is right.
func right(p *pcapfile.Packet) bool {
	sum, ok := roce.HeaderICRC(p.IP, p.UDP, p.Payload)
	return ok && sum == binary.LittleEndian.Uint32(p.Payload[len(p.Payload)-roce.ICRCLen:])
}
