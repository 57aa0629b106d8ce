package capture

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/roce"
)

const (
	ethernetLen = 14
	typeIPv4    = 0x0800
	typeIPv6    = 0x86DD
)

// stage holds rebuilt frames, end to end. Its memory is reused: it grows to
// the largest batch.
type stage struct {
	buf  []byte
	ends []int // of each frame in buf
}

func (s *stage) reset() { s.buf, s.ends = s.buf[:0], s.ends[:0] }

// drop removes the first k frames.
func (s *stage) drop(k int) {
	if k == 0 {
		return
	}
	n := s.ends[k-1]
	s.buf = s.buf[:copy(s.buf, s.buf[n:])]
	s.ends = s.ends[:copy(s.ends, s.ends[k:])]
	for i := range s.ends {
		s.ends[i] -= n
	}
}

// frame returns frame i.
func (s *stage) frame(i int) []byte {
	lo := 0
	if i > 0 {
		lo = s.ends[i-1]
	}
	return s.buf[lo:s.ends[i]]
}

// run appends the segments of a run to be sent. srcPort, if not 0, replaces the
// source port of the path.
func (s *stage) run(r *fabric.Run, srcPort uint16) {
	h := ipudp.Header{
		Src: r.Path.Src, Dst: r.Path.Dst,
		SrcPort: r.Path.SrcPort, DstPort: fabric.RoCEPort,
		TClass: r.Path.TClass, HopLimit: r.Path.HopLimit, FlowLabel: r.Path.FlowLabel,
	}
	if srcPort != 0 {
		h.SrcPort = srcPort
	}
	for i := range r.Count {
		h.ID = uint16(i)
		s.add(&h, r.Segment(i))
	}
}

// datagram appends the segments of a datagram that arrived.
func (s *stage) datagram(d *fabric.Datagram) {
	h := ipudp.Header{
		Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, DstPort: d.DstPort,
		NoDF: d.NoDF, TClass: d.TClass, HopLimit: d.HopLimit, FlowLabel: d.FlowLabel,
	}
	id := d.ID
	for off := 0; off < len(d.Bytes); id++ {
		var seg []byte
		seg, off = d.Segment(off)
		h.ID = id
		if !d.IDKnown {
			h.ID = derive(&h, seg)
		}
		s.add(&h, seg)
	}
}

// derive returns the identification derived from the ICRC of a packet, or 0 for
// a damaged packet.
func derive(h *ipudp.Header, seg []byte) uint16 {
	id, ok := roce.DeriveID(seg, roce.NewPrefix(h.Src, h.Dst, h.SrcPort, h.DstPort, len(seg)), 0)
	if !ok {
		return 0
	}
	return id
}

// add appends the frame of one packet. A segment too large for an IP packet
// becomes an empty packet; no port sends such segments.
func (s *stage) add(h *ipudp.Header, seg []byte) {
	if len(seg) > ipudp.MaxPayload {
		seg = nil
	}
	var head [ethernetLen + ipudp.MaxLen]byte
	putMAC(head[0:], h.Dst)
	putMAC(head[6:], h.Src)
	kind := uint16(typeIPv6)
	if h.Src.Is4() {
		kind = typeIPv4
	}
	binary.BigEndian.PutUint16(head[12:], kind)
	n := ethernetLen + h.Put(head[ethernetLen:], len(seg))
	at := len(s.buf) + ethernetLen
	s.buf = append(append(s.buf, head[:n]...), seg...)
	h.SetChecksum(s.buf[at:])
	s.ends = append(s.ends, len(s.buf))
}

// putMAC writes the Ethernet address of a group (RFC 1112, RFC 2464), or a
// locally administered one derived from a.
func putMAC(b []byte, a netip.Addr) {
	b[0], b[1] = 0x02, 0x00
	if a.Is4() {
		v := a.As4()
		copy(b[2:6], v[:])
		if a.IsMulticast() {
			b[0], b[1], b[2], b[3] = 0x01, 0x00, 0x5E, v[1]&0x7F
		}
		return
	}
	v := a.As16()
	binary.BigEndian.PutUint32(b[2:], crc32.ChecksumIEEE(v[:]))
	if a.IsMulticast() {
		b[0], b[1] = 0x33, 0x33
		copy(b[2:6], v[12:])
	}
}
