package ipudp

import "encoding/binary"

// SetChecksum computes the UDP checksum of the packet whose headers h wrote
// into b and whose payload follows them there.
func (h *Header) SetChecksum(b []byte) {
	udp := b[h.Len()-UDPLen:]
	udp[6], udp[7] = 0, 0
	c := ^h.sum(b)
	if c == 0 {
		c = 0xFFFF // 0 means no checksum (RFC 768)
	}
	binary.BigEndian.PutUint16(udp[6:], c)
}

// ChecksumOK reports whether the UDP checksum of a packet is correct or 0
// (none), which RoCE senders use over IPv6 too. b contains the headers from
// which h was read and the payload, without trailing bytes.
func (h *Header) ChecksumOK(b []byte) bool {
	udp := b[h.Len()-UDPLen:]
	return udp[6]|udp[7] == 0 || h.sum(b) == 0xFFFF
}

// sum returns the one's complement sum of a packet's pseudo header, UDP header
// and payload.
func (h *Header) sum(b []byte) uint16 {
	at, udp := 8, b[h.Len()-UDPLen:]
	if h.Src.Is4() {
		at = 12
	}
	addrs := b[at : h.Len()-UDPLen]
	return fold(add(add(uint64(len(udp))+protocolUDP, addrs), udp))
}

// add adds the 16-bit words of b to sum; an odd byte counts as the upper one.
func add(sum uint64, b []byte) uint64 {
	for len(b) >= 4 {
		sum += uint64(binary.BigEndian.Uint32(b)) // two words at once: fold adds them up
		b = b[4:]
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// fold reduces a sum to the 16 bits of one's complement arithmetic.
func fold(sum uint64) uint16 {
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return uint16(sum)
}
