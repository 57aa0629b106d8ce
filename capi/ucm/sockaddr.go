//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
)

// The sizes of socket addresses.
const (
	sizeIn4 = 16
	sizeIn6 = 28
)

// parseSockaddr reads an IPv4 or IPv6 socket address, or the zero value if there is none. Other
// families give EINVAL.
func parseSockaddr(b []byte) (netip.AddrPort, error) {
	port := func() uint16 { return binary.BigEndian.Uint16(b[2:]) }
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_UNSPEC:
		return netip.AddrPort{}, nil
	case family == unix.AF_INET && len(b) >= sizeIn4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port()), nil
	case family == unix.AF_INET6 && len(b) >= sizeIn6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])).WithZone(zone(b)), port()), nil
	default:
		return netip.AddrPort{}, fmt.Errorf("an address of family %d in %d bytes: want IPv4 or IPv6: %w", family, len(b), ib.EINVAL)
	}
}

// zone returns the interface number of an IPv6 socket address as a zone, "" if it names no
// interface.
func zone(b []byte) string {
	if n := binary.NativeEndian.Uint32(b[24:]); n != 0 {
		return strconv.FormatUint(uint64(n), 10)
	}
	return ""
}

// local returns an address to bind to. For a link-local address the program has to name the
// interface.
func local(a netip.AddrPort, err error) (netip.AddrPort, error) {
	if err == nil && a.Addr().Is6() && a.Addr().IsLinkLocalUnicast() && a.Addr().Zone() == "" {
		err = fmt.Errorf("%v without an interface: %w", a.Addr(), ib.EINVAL)
	}
	return a, err
}

// ErrNoAFIB is the result of BIND with an address of family AF_IB. librdmacm binds an ID to one
// when it starts, to learn whether the kernel supports the family. Kernels before 3.11 return
// EINVAL too, and librdmacm then uses IP addresses in every command. So this error does not
// mean that anything is wrong.
var ErrNoAFIB = fmt.Errorf("addresses of family AF_IB are not supported: %w", ib.EINVAL)

// familyIB is AF_IB.
const familyIB = 27

// parseSized reads an address whose size the program gives.
func parseSized(b []byte, size uint16) (netip.AddrPort, error) {
	want := uint16(sizeIn4)
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET6:
		want = sizeIn6
	case familyIB:
		return netip.AddrPort{}, ErrNoAFIB
	}
	if size != want {
		return netip.AddrPort{}, fmt.Errorf("an address of %d bytes: %w", size, ib.EINVAL)
	}
	return parseSockaddr(b[:size])
}

// named returns an address that must be present.
func named(a netip.AddrPort, err error) (netip.AddrPort, error) {
	if err == nil && !a.IsValid() {
		err = fmt.Errorf("no address: %w", ib.EINVAL)
	}
	return a, err
}

// putSockaddr writes a socket address and returns its size, 0 for none.
func putSockaddr(b []byte, a netip.AddrPort) uint16 {
	if !a.IsValid() {
		return 0
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	if a.Addr().Is4() {
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		copy(b[4:], a.Addr().AsSlice())
		return sizeIn4
	}
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	copy(b[8:], a.Addr().AsSlice())
	return sizeIn6
}
