package udp

import (
	"encoding/binary"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
)

// ForwardHeader is the bytes that PutForwarded writes before a packet:
//
//	 0-15  source address, IPv4 as v4-mapped
//	16-31  destination address
//	32-33  source port
//	34     traffic class
//	35     hop limit
//	36-39  flow label
const ForwardHeader = 40

// PutForwarded writes a datagram of one packet, as another port received it, for
// Lease.Mail. It returns its length, 0 if it does not fit b.
func PutForwarded(b []byte, d *fabric.Datagram) int {
	n := ForwardHeader + len(d.Bytes)
	if len(b) < n {
		return 0
	}
	src, dst := d.Src.As16(), d.Dst.As16()
	copy(b, src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[32:], d.SrcPort)
	b[34], b[35] = d.TClass, d.HopLimit
	binary.BigEndian.PutUint32(b[36:], d.FlowLabel)
	return ForwardHeader + copy(b[ForwardHeader:], d.Bytes)
}

// forwarded reads the output of PutForwarded. It reports false if b is invalid.
func forwarded(d *fabric.Datagram, b []byte) bool {
	if len(b) <= ForwardHeader {
		return false
	}
	*d = fabric.Datagram{
		Bytes:   b[ForwardHeader:],
		Src:     netip.AddrFrom16([16]byte(b)).Unmap(),
		Dst:     netip.AddrFrom16([16]byte(b[16:])).Unmap(),
		SrcPort: binary.BigEndian.Uint16(b[32:]), DstPort: fabric.RoCEPort,
		TClass: b[34], HopLimit: b[35],
		FlowLabel: binary.BigEndian.Uint32(b[36:]) & 0xFFFFF,
	}
	return true
}
