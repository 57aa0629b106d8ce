package roce

import "github.com/softhca/softhca/internal/fabric/ipudp"

// maxIPLen is the longest IPv4 header, with options, in bytes.
const maxIPLen = 60

// HeaderICRC computes the ICRC of a captured packet from its very headers: ip
// is the IPv4 header with any options or the IPv6 header without extensions,
// udp the eight bytes of the UDP header, pkt the UDP payload from the BTH to
// the ICRC, whose last four bytes are not read. The result is to be compared
// with Packet.ICRC. It returns false when the pieces are not of these sizes
// or ip is of neither version. It does not allocate and keeps nothing.
func HeaderICRC(ip, udp, pkt []byte) (icrc uint32, ok bool) {
	if len(ip) < ipudp.IPv4Len || len(ip) > maxIPLen || len(udp) != ipudp.UDPLen || len(pkt) < MinSize {
		return 0, false
	}
	var buf [maxIPLen + ipudp.UDPLen]byte
	h := buf[:copy(buf[:], ip)]
	switch {
	case ip[0]>>4 == 4 && len(ip) == int(ip[0]&0x0f)*4:
		h[1], h[8], h[10], h[11] = 0xff, 0xff, 0xff, 0xff
	case ip[0]>>4 == 6 && len(ip) == ipudp.IPv6Len:
		h[0], h[1], h[2], h[3], h[7] = h[0]|0x0f, 0xff, 0xff, 0xff, 0xff
	default:
		return 0, false
	}
	h = append(h, udp...)
	h[len(h)-2], h[len(h)-1] = 0xff, 0xff
	p := Prefix{reg: updateShort(lrhRegister, h)}
	return p.ICRC(pkt[:len(pkt)-ICRCLen]), true
}
