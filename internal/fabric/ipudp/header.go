package ipudp

import (
	"encoding/binary"
	"net/netip"
)

// Lengths of headers in bytes.
const (
	IPv4Len = 20
	IPv6Len = 40
	UDPLen  = 8
	MaxLen  = IPv6Len + UDPLen
)

// MaxPayload is the UDP payload that fits an IPv4 packet of 65535 bytes.
const MaxPayload = 65535 - IPv4Len - UDPLen

// protocolUDP is UDP in IPv4's protocol and IPv6's next header.
const protocolUDP = 17

// dontFragment is DF in the flags word of IPv4.
const dontFragment = 0x4000

// Header holds the fields of a packet's headers. Src and Dst are of one family
// and carry no zone.
type Header struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	ID               uint16 // IPv4 identification
	NoDF             bool   // IPv4 without "don't fragment"
	TClass           uint8  // IPv4 TOS or IPv6 traffic class
	HopLimit         uint8
	FlowLabel        uint32 // IPv6, 20 bits
}

// Len returns the bytes of both headers.
func (h *Header) Len() int {
	if h.Src.Is4() {
		return IPv4Len + UDPLen
	}
	return IPv6Len + UDPLen
}

// Put writes the headers of a packet with n bytes of payload, at most
// MaxPayload, and returns their length. It computes the IPv4 checksum; the UDP
// checksum is 0 (none). b must have room for Len bytes.
func (h *Header) Put(b []byte, n int) int {
	ip := h.PutIP(b, n)
	PutUDP((*[UDPLen]byte)(b[ip:]), h.SrcPort, h.DstPort, uint16(n+UDPLen))
	return ip + UDPLen
}

// PutIP writes the IP header alone of a packet with n bytes of UDP payload, and
// returns its length.
func (h *Header) PutIP(b []byte, n int) int {
	if h.Src.Is4() {
		h.putIPv4((*[IPv4Len]byte)(b), uint16(n+IPv4Len+UDPLen))
		return IPv4Len
	}
	h.putIPv6((*[IPv6Len]byte)(b), uint16(n+UDPLen))
	return IPv6Len
}

// +-------+-------+---------------+-------------------------------+
// |   4   |   5   | TClass        | total length                  |
// +-------+-------+---------------+-----+-------------------------+
// | ID                            |0 D 0| 0                       |
// +---------------+---------------+-----+-------------------------+
// | HopLimit      | 17            | checksum                      |
// +---------------+---------------+-------------------------------+
// | Src                                                           |
// +---------------------------------------------------------------+
// | Dst                                                           |
// +---------------------------------------------------------------+
func (h *Header) putIPv4(b *[IPv4Len]byte, total uint16) {
	FixedIPv4(b, h.Src.As4(), h.Dst.As4(), total)
	b[1], b[8] = h.TClass, h.HopLimit
	binary.BigEndian.PutUint16(b[4:], h.ID)
	if h.NoDF {
		b[6] = 0
	}
	binary.BigEndian.PutUint16(b[10:], ^fold(add(0, b[:])))
}

// FixedIPv4 writes the IPv4 header of a packet of total bytes, with DF; fields
// that can change in transit, and the identification, are 0.
func FixedIPv4(b *[IPv4Len]byte, src, dst [4]byte, total uint16) {
	b[0], b[1] = 0x45, 0
	binary.BigEndian.PutUint16(b[2:], total)
	binary.BigEndian.PutUint32(b[4:], dontFragment)
	b[8], b[9], b[10], b[11] = 0, protocolUDP, 0, 0
	*(*[4]byte)(b[12:]) = src
	*(*[4]byte)(b[16:]) = dst
}

// +-------+---------------+---------------------------------------+
// |   6   | TClass        | FlowLabel                             |
// +-------+---------------+-------+---------------+---------------+
// | payload length                | 17            | HopLimit      |
// +-------------------------------+---------------+---------------+
// | Src (16 bytes)                                                |
// | Dst (16 bytes)                                                |
// +---------------------------------------------------------------+
func (h *Header) putIPv6(b *[IPv6Len]byte, payload uint16) {
	FixedIPv6(b, h.Src.As16(), h.Dst.As16(), payload)
	binary.BigEndian.PutUint32(b[0:], 6<<28|uint32(h.TClass)<<20|h.FlowLabel&0xFFFFF)
	b[7] = h.HopLimit
}

// FixedIPv6 writes the IPv6 header of a packet followed by payload bytes;
// fields that can change in transit are 0.
func FixedIPv6(b *[IPv6Len]byte, src, dst [16]byte, payload uint16) {
	binary.BigEndian.PutUint32(b[0:], 6<<28)
	binary.BigEndian.PutUint16(b[4:], payload)
	b[6], b[7] = protocolUDP, 0
	*(*[16]byte)(b[8:]) = src
	*(*[16]byte)(b[24:]) = dst
}

// PutUDP writes a UDP header without a checksum, for a total of length bytes,
// including the header.
//
//	+-------------------------------+-------------------------------+
//	| src                           | dst                           |
//	+-------------------------------+-------------------------------+
//	| length                        | checksum                      |
//	+-------------------------------+-------------------------------+
func PutUDP(b *[UDPLen]byte, src, dst, length uint16) {
	binary.BigEndian.PutUint16(b[0:], src)
	binary.BigEndian.PutUint16(b[2:], dst)
	binary.BigEndian.PutUint16(b[4:], length)
	b[6], b[7] = 0, 0
}

// Parse reads the headers of an IP packet and returns them with the UDP
// payload, which aliases b. Bytes after the packet, such as Ethernet padding,
// are ignored. It returns false unless b starts with a complete UDP packet
// without options, extension headers and fragmentation. It does not verify
// checksums: see ChecksumOK.
func Parse(b []byte) (h Header, payload []byte, ok bool) {
	if len(b) < IPv4Len+UDPLen {
		return h, nil, false
	}
	var udp []byte
	switch b[0] >> 4 {
	case 4:
		udp, ok = h.parseIPv4(b)
	case 6:
		udp, ok = h.parseIPv6(b)
	}
	if !ok || len(udp) < UDPLen {
		return h, nil, false
	}
	h.SrcPort = binary.BigEndian.Uint16(udp[0:])
	h.DstPort = binary.BigEndian.Uint16(udp[2:])
	n := int(binary.BigEndian.Uint16(udp[4:]))
	if n < UDPLen || n > len(udp) {
		return h, nil, false
	}
	return h, udp[UDPLen:n], true
}

// parseIPv4 reads an IPv4 header and returns its payload.
func (h *Header) parseIPv4(b []byte) ([]byte, bool) {
	total := int(binary.BigEndian.Uint16(b[2:]))
	flags := binary.BigEndian.Uint16(b[6:])
	if b[0] != 0x45 || b[9] != protocolUDP || flags&^dontFragment != 0 || total < IPv4Len || total > len(b) {
		return nil, false
	}
	h.TClass, h.HopLimit = b[1], b[8]
	h.ID, h.NoDF = binary.BigEndian.Uint16(b[4:]), flags == 0
	h.Src = netip.AddrFrom4([4]byte(b[12:16]))
	h.Dst = netip.AddrFrom4([4]byte(b[16:20]))
	return b[IPv4Len:total], true
}

// parseIPv6 reads an IPv6 header and returns its payload.
func (h *Header) parseIPv6(b []byte) ([]byte, bool) {
	if len(b) < IPv6Len || b[6] != protocolUDP {
		return nil, false
	}
	end := IPv6Len + int(binary.BigEndian.Uint16(b[4:]))
	if end > len(b) {
		return nil, false
	}
	first := binary.BigEndian.Uint32(b)
	h.TClass, h.HopLimit, h.FlowLabel = uint8(first>>20), b[7], first&0xFFFFF
	h.Src = netip.AddrFrom16([16]byte(b[8:24]))
	h.Dst = netip.AddrFrom16([16]byte(b[24:40]))
	return b[IPv6Len:end], true
}
