package pcapfile

import (
	"encoding/binary"
	"net/netip"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd

	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
	protocolUDP = 17
	rocePort    = 4791

	// maxTags is the maximum number of VLAN tags in a frame.
	maxTags = 4

	// Link types of raw IP that some BSD systems write instead of 101.
	linkRawBSD     layers.LinkType = 12
	linkRawOpenBSD layers.LinkType = 14
	// linkNone stands for a record whose link type is unknown.
	linkNone layers.LinkType = 0xffff
)

// supported reports whether network supports the link type.
func supported(link layers.LinkType) bool {
	switch link {
	case layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2,
		layers.LinkTypeNull, layers.LinkTypeLoop, layers.LinkTypeRaw,
		layers.LinkTypeIPv4, layers.LinkTypeIPv6, linkRawBSD, linkRawOpenBSD:
		return true
	default:
		return false
	}
}

// network returns the IP packet in a frame, with any trailing bytes, or nil if
// there is none.
func network(link layers.LinkType, frame []byte) []byte {
	switch link {
	case layers.LinkTypeEthernet:
		return afterType(frame, 12, 14)
	case layers.LinkTypeLinuxSLL:
		return afterType(frame, 14, 16)
	case layers.LinkTypeLinuxSLL2:
		return afterType(frame, 0, 20)
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		// The address family has a different number on every system, in either
		// byte order; the IP header's version is used instead.
		return from(frame, 4)
	default:
		return frame
	}
}

// direction returns the direction of a frame: that of the record, or else that
// of the header that Linux writes for a capture on all interfaces.
func direction(link layers.LinkType, frame []byte, flags *pcapgo.NgEpbFlags) Direction {
	if flags != nil {
		switch flags.Direction {
		case pcapgo.NgEpbFlagDirectionInbound:
			return Inbound
		case pcapgo.NgEpbFlagDirectionOutbound:
			return Outbound
		}
	}
	const multicast, outgoing = 2, 4 // Linux packet types; those between are for other hosts
	var kind uint16
	switch {
	case link == layers.LinkTypeLinuxSLL && len(frame) >= 2:
		kind = binary.BigEndian.Uint16(frame)
	case link == layers.LinkTypeLinuxSLL2 && len(frame) >= 11:
		kind = uint16(frame[10])
	default:
		return Unmarked
	}
	switch {
	case kind == outgoing:
		return Outbound
	case kind <= multicast:
		return Inbound
	default:
		return Unmarked
	}
}

// afterType returns the bytes after a link header of length n, with an Ethernet
// type at offset at, and after VLAN tags; nil if it is not IP.
func afterType(frame []byte, at, n int) []byte {
	rest := from(frame, n)
	if rest == nil {
		return nil
	}
	kind := binary.BigEndian.Uint16(frame[at:])
	for range maxTags {
		if kind != 0x8100 && kind != 0x88a8 && kind != 0x9100 || len(rest) < 4 {
			break
		}
		kind, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	if kind != etherIPv4 && kind != etherIPv6 {
		return nil
	}
	return rest
}

// from returns b[n:], or nil when b is shorter.
func from(b []byte, n int) []byte {
	if len(b) < n {
		return nil
	}
	return b[n:]
}

// split parses an IP packet into p, and reports whether it is a UDP datagram to
// the RoCE port, complete or truncated by the capture.
func (p *Packet) split(ip []byte) bool {
	if len(ip) < 1 {
		return false
	}
	var body []byte
	switch ip[0] >> 4 {
	case 4:
		body = p.splitIPv4(ip)
	case 6:
		body = p.splitIPv6(ip)
	}
	if len(body) < udpLen {
		return false
	}
	p.UDP, p.Payload = body[:udpLen], body[udpLen:]
	p.SrcPort = binary.BigEndian.Uint16(p.UDP)
	p.DstPort = binary.BigEndian.Uint16(p.UDP[2:])
	length := int(binary.BigEndian.Uint16(p.UDP[4:])) - udpLen
	if p.DstPort != rocePort || length < 0 {
		return false
	}
	p.Truncated = len(p.Payload) < length
	if !p.Truncated {
		p.Payload = p.Payload[:length]
	}
	return true
}

// splitIPv4 sets the IP fields of p and returns the UDP datagram, or nil when
// the packet is not UDP, damaged, or a fragment.
func (p *Packet) splitIPv4(ip []byte) []byte {
	if len(ip) < ipv4Len {
		return nil
	}
	n, total := int(ip[0]&0x0f)*4, int(binary.BigEndian.Uint16(ip[2:]))
	const moreOrOffset = 0x3fff
	if n < ipv4Len || len(ip) < n || total < n || ip[9] != protocolUDP ||
		binary.BigEndian.Uint16(ip[6:])&moreOrOffset != 0 {
		return nil
	}
	p.IP = ip[:n]
	p.Src = netip.AddrFrom4([4]byte(ip[12:16]))
	p.Dst = netip.AddrFrom4([4]byte(ip[16:20]))
	return ip[n:min(total, len(ip))]
}

// splitIPv6 sets the IP fields of p and returns the UDP datagram, or nil when
// the packet is not UDP directly after the header.
func (p *Packet) splitIPv6(ip []byte) []byte {
	if len(ip) < ipv6Len || ip[6] != protocolUDP {
		return nil
	}
	total := ipv6Len + int(binary.BigEndian.Uint16(ip[4:]))
	p.IP = ip[:ipv6Len]
	p.Src = netip.AddrFrom16([16]byte(ip[8:24]))
	p.Dst = netip.AddrFrom16([16]byte(ip[24:40]))
	return ip[ipv6Len:min(total, len(ip))]
}
