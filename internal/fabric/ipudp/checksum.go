package ipudp

import "encoding/binary"

// SetChecksum computes the UDP checksum of the packet whose headers h wrote
// into b and whose payload follows them there.
func (h *Header) SetChecksum(b []byte) {
	udp := b[h.Len()-UDPLen:]
	var sum uint64
	if h.Src.Is4() {
		sum = add(sum, b[12:20])
	} else {
		sum = add(sum, b[8:40])
	}
	sum += uint64(len(udp)) + protocolUDP
	udp[6], udp[7] = 0, 0
	c := ^fold(add(sum, udp))
	if c == 0 {
		c = 0xFFFF // 0 would say that there is none (RFC 768)
	}
	binary.BigEndian.PutUint16(udp[6:], c)
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
