package mad

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// IPHeaderSize is the size of an IPHeader in bytes; what follows it in the
// private data is the program's.
const IPHeaderSize = 36

// ErrIPHeader is returned for private data that does not begin with an IP
// header of the known version.
var ErrIPHeader = errors.New("mad: no IP header")

// IPHeader begins the private data of a REQ and a SIDR_REQ with IP addressing
// and has the connection's addresses (IBA annex A11).
//
//	byte    field
//	 0      major version 4, minor version 4: both 0
//	 1      IP version 4, reserved 4
//	 2- 3   SrcPort
//	 4-19   SrcAddr; IPv4 in the last four bytes, after zeros
//	20-35   DstAddr, likewise
type IPHeader struct {
	SrcPort uint16
	SrcAddr netip.Addr
	DstAddr netip.Addr
}

// ParseIPHeader reads a header. The error is ErrIPHeader. IPv6 addresses have
// no zone.
func ParseIPHeader(b *[IPHeaderSize]byte) (IPHeader, error) {
	h := IPHeader{SrcPort: binary.BigEndian.Uint16(b[2:])}
	version, family := b[0], b[1]>>4
	switch {
	case version == 0 && family == 4:
		h.SrcAddr = netip.AddrFrom4([4]byte(b[16:20]))
		h.DstAddr = netip.AddrFrom4([4]byte(b[32:36]))
	case version == 0 && family == 6:
		h.SrcAddr = netip.AddrFrom16([16]byte(b[4:20]))
		h.DstAddr = netip.AddrFrom16([16]byte(b[20:36]))
	default:
		return IPHeader{}, fmt.Errorf("%w: version %d.%d, IP version %d", ErrIPHeader, version>>4, version&0xf, family)
	}
	return h, nil
}

// Put writes the header. Its IP version is 6 if an address is IPv6, also a
// v4-mapped one; the other address is then written v4-mapped if it is IPv4. The zero
// address is written as zeros, and zones are not written.
func (h IPHeader) Put(b *[IPHeaderSize]byte) {
	clear(b[:])
	binary.BigEndian.PutUint16(b[2:], h.SrcPort)
	src, dst := h.SrcAddr.As16(), h.DstAddr.As16()
	if h.SrcAddr.Is6() || h.DstAddr.Is6() {
		b[1] = 6 << 4
		copy(b[4:20], src[:])
		copy(b[20:36], dst[:])
		return
	}
	b[1] = 4 << 4
	copy(b[16:20], src[12:])
	copy(b[32:36], dst[12:])
}
