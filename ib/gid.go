package ib

import (
	"fmt"
	"net/netip"
)

// GID is a 128-bit global identifier. On RoCEv2 it is an IP address: an IPv6
// address itself, an IPv4 address v4-mapped.
type GID [16]byte

// GIDFromAddr returns the GID of an IP address; the zone of a link-local
// address is not part of it.
func GIDFromAddr(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address of g, without zone; IPv4 for a v4-mapped GID.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is the empty entry of a GID table.
func (g GID) IsZero() bool { return g == GID{} }

// IsMulticast reports whether g names a multicast group: ff00::/8, or a
// v4-mapped 224.0.0.0/4.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// String returns the GID as eight groups of four digits, as rdma-core does.
func (g GID) String() string {
	s := make([]byte, 0, 39)
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			s = append(s, ':')
		}
		s = fmt.Appendf(s, "%02x%02x", g[i], g[i+1])
	}
	return string(s)
}
