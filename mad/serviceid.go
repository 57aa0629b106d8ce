package mad

import "strconv"

// PortSpace is a name space of the ports of the RDMA connection manager, with
// the values of enum rdma_port_space.
type PortSpace uint16

// The port spaces. Linux has none for reliable datagrams: PSRD is ours, of the
// protocol number that is for everyone's own use (RFC 3692).
const (
	PSIPoIB PortSpace = 0x0002
	PSTCP   PortSpace = 0x0106
	PSUDP   PortSpace = 0x0111
	PSIB    PortSpace = 0x013f
	PSRD    PortSpace = 0x01fd
)

var portSpaceNames = map[PortSpace]string{
	PSIPoIB: "ipoib",
	PSTCP:   "tcp",
	PSUDP:   "udp",
	PSIB:    "ib",
	PSRD:    "rd",
}

// String returns the short name of the port space, such as "tcp".
func (p PortSpace) String() string { return hexName(portSpaceNames, p, "ps") }

// ServiceID names what a REQ or a SIDR_REQ wants to talk to.
type ServiceID uint64

// IPServiceID returns the service ID of a port: in the low 32 bits the port
// space and the port, in the others zeros. The prefix of the IP addressing
// annex, 0x0000000001, thus is in the port space, whose low byte is the number
// of the IP protocol (IBA annex A11).
func IPServiceID(ps PortSpace, port uint16) ServiceID {
	return ServiceID(ps)<<16 | ServiceID(port)
}

// IP takes the service ID of a port apart. It reports false for one that is
// not of the connection manager: neither the prefix of the annex nor PSIPoIB.
func (s ServiceID) IP() (ps PortSpace, port uint16, ok bool) {
	const prefix = 0x0000000001
	ps, port = PortSpace(s>>16), uint16(s)
	if s>>24 != prefix && ServiceID(PSIPoIB) != s>>16 {
		return 0, 0, false
	}
	return ps, port, true
}

// String returns port space and port, such as "tcp:7472", and 16 hexadecimal
// digits for any other service.
func (s ServiceID) String() string {
	if ps, port, ok := s.IP(); ok {
		return ps.String() + ":" + strconv.Itoa(int(port))
	}
	return hexText(uint64(s), 16)
}

// IPHeader returns the IP header in the private data of a REQ or a SIDR_REQ for the service. It reports
// false if the service has none, as those of PSIB, or data is too short, or the header is damaged.
func (s ServiceID) IPHeader(data []byte) (IPHeader, bool) {
	if ps, _, ok := s.IP(); !ok || ps == PSIB || len(data) < IPHeaderSize {
		return IPHeader{}, false
	}
	h, err := ParseIPHeader((*[IPHeaderSize]byte)(data))
	return h, err == nil
}
