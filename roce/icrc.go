package roce

import (
	"encoding/binary"
	"net/netip"
)

const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8
	// protocolUDP is 17 in both the IPv4 protocol and the IPv6 next header.
	protocolUDP = 17

	// lrhRegister is the CRC register after the eight bytes of ones that stand
	// for the local route header of native InfiniBand, whose fields vary.
	lrhRegister = 0xdebb20e3
)

// Prefix is the part of an ICRC that lies before the packet: the CRC over the
// stand-in for the local route header, the IP header and the UDP header, with
// the fields that change on the way taken as ones (IBA annex A17). It is
// a small value, to be made anew when a length or an address changes.
type Prefix struct {
	reg uint32
	v4  bool
}

// NewPrefix returns the prefix of packets from src to dst whose UDP payload,
// from the BTH to the ICRC, has udpPayload bytes. Two IPv4 or v4-mapped
// addresses make it IPv4, with the header that RoCE senders use: no options,
// don't-fragment (see WithoutDF), and identification 0 (see WithID). Otherwise it is IPv6
// without extension headers. It does not allocate.
func NewPrefix(src, dst netip.Addr, srcPort, dstPort uint16, udpPayload int) Prefix {
	src, dst = src.Unmap(), dst.Unmap()
	length := uint16(udpPayload + udpLen)
	var b [ipv6Len + udpLen]byte
	n, v4 := ipv6Len, src.Is4() && dst.Is4()
	if v4 {
		n = ipv4Len
		putIPv4((*[ipv4Len]byte)(b[:]), src.As4(), dst.As4(), length)
	} else {
		putIPv6((*[ipv6Len]byte)(b[:]), src.As16(), dst.As16(), length)
	}
	udp := b[n : n+udpLen]
	binary.BigEndian.PutUint16(udp[0:], srcPort)
	binary.BigEndian.PutUint16(udp[2:], dstPort)
	binary.BigEndian.PutUint16(udp[4:], length)
	udp[6], udp[7] = 0xff, 0xff // checksum
	return Prefix{reg: updateShort(lrhRegister, b[:n+udpLen]), v4: v4}
}

// putIPv4 writes the masked header for a UDP datagram of length bytes.
func putIPv4(b *[ipv4Len]byte, src, dst [4]byte, length uint16) {
	b[0] = 0x45
	b[1] = 0xff // type of service
	binary.BigEndian.PutUint16(b[2:], length+ipv4Len)
	b[6] = 0x40 // don't fragment
	b[8] = 0xff // time to live
	b[9] = protocolUDP
	b[10], b[11] = 0xff, 0xff // checksum
	*(*[4]byte)(b[12:]) = src
	*(*[4]byte)(b[16:]) = dst
}

// putIPv6 writes the masked header for a UDP datagram of length bytes.
func putIPv6(b *[ipv6Len]byte, src, dst [16]byte, length uint16) {
	b[0], b[1], b[2], b[3] = 0x6f, 0xff, 0xff, 0xff // traffic class and flow label
	binary.BigEndian.PutUint16(b[4:], length)
	b[6] = protocolUDP
	b[7] = 0xff // hop limit
	*(*[16]byte)(b[8:]) = src
	*(*[16]byte)(b[24:]) = dst
}

// Sum is an ICRC in the making.
type Sum struct{ reg uint32 }

// Start begins the ICRC of a packet with its first bytes, at least the whole
// BTH; it panics on fewer. Byte 4, with FECN and BECN, counts as ones.
func (p Prefix) Start(b []byte) Sum {
	head := (*[BTHLen]byte)(b)
	reg := step8(p.reg, binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:])|0xff)
	reg = step4(reg, binary.LittleEndian.Uint32(head[8:]))
	return Sum{update(reg, b[BTHLen:])}
}

// Update returns the sum after further bytes of the packet.
func (s Sum) Update(b []byte) Sum { return Sum{update(s.reg, b)} }

// ICRC returns the ICRC of what was summed: the number whose four bytes,
// least significant first, end the packet.
func (s Sum) ICRC() uint32 { return ^s.reg }

// ICRC returns the ICRC of a packet given without its last four bytes. It
// panics on less than a BTH.
func (p Prefix) ICRC(b []byte) uint32 { return p.Start(b).ICRC() }

// Seal computes the ICRC of a built packet and stores it in the last four
// bytes. It panics on less than MinSize bytes, which is a bug of the caller.
func Seal(pkt []byte, p Prefix) {
	body := pkt[:len(pkt)-ICRCLen]
	binary.LittleEndian.PutUint32(pkt[len(body):], p.ICRC(body))
}

// Check reports whether the ICRC of a received packet is right; one shorter
// than MinSize has none.
func Check(pkt []byte, p Prefix) bool {
	if len(pkt) < MinSize {
		return false
	}
	return storedICRC(pkt) == p.ICRC(pkt[:len(pkt)-ICRCLen])
}

// storedICRC returns the ICRC that a packet carries.
func storedICRC(pkt []byte) uint32 {
	return binary.LittleEndian.Uint32(pkt[len(pkt)-ICRCLen:])
}
