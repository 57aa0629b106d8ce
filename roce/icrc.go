package roce

import (
	"encoding/binary"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric/ipudp"
)

// lrhRegister is the CRC register after the eight bytes of ones that stand for
// the local route header of native InfiniBand, whose fields vary.
const lrhRegister = 0xdebb20e3

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
// don't-fragment (see WithoutDF), and identification 0 (see WithID). Otherwise
// it is IPv6 without extension headers. It does not allocate.
func NewPrefix(src, dst netip.Addr, srcPort, dstPort uint16, udpPayload int) Prefix {
	src, dst = src.Unmap(), dst.Unmap()
	length := uint16(udpPayload + ipudp.UDPLen)
	var b [ipudp.MaxLen]byte
	n, v4 := ipudp.IPv6Len, src.Is4() && dst.Is4()
	if v4 {
		n = ipudp.IPv4Len
		ipudp.FixedIPv4((*[ipudp.IPv4Len]byte)(b[:]), src.As4(), dst.As4(), length+ipudp.IPv4Len)
		b[1], b[8], b[10], b[11] = 0xff, 0xff, 0xff, 0xff // type of service, time to live, checksum
	} else {
		ipudp.FixedIPv6((*[ipudp.IPv6Len]byte)(b[:]), src.As16(), dst.As16(), length)
		b[0], b[1], b[2], b[3], b[7] = 0x6f, 0xff, 0xff, 0xff, 0xff // traffic class, flow label, hop limit
	}
	udp := (*[ipudp.UDPLen]byte)(b[n:])
	ipudp.PutUDP(udp, srcPort, dstPort, length)
	udp[6], udp[7] = 0xff, 0xff // checksum
	return Prefix{reg: updateShort(lrhRegister, b[:n+ipudp.UDPLen]), v4: v4}
}

// Sum is an ICRC in the making.
type Sum struct{ reg uint32 }

// Start begins the ICRC of a packet with its first bytes, at least the whole
// BTH; it panics on fewer. Byte 4, with FECN and BECN, counts as ones.
func (p Prefix) Start(b []byte) Sum {
	return Sum{update(step12(p.reg, (*[BTHLen]byte)(b)), b[BTHLen:])}
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
