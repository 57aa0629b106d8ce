package gsi

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// defaultHopLimit is the hop limit of QP1 on Linux.
const defaultHopLimit = 64

// Address is the path to or from a queue pair of a peer. Zero fields have
// defaults, so Remote alone suffices.
type Address struct {
	Local     netip.Addr // of any port; zero: the first address of Remote's family
	Remote    netip.Addr
	QPN       ib.QPN  // of the peer; 0: QP1
	PKey      ib.PKey // an entry of the port's table; 0: the first
	TClass    uint8   // IPv4 TOS or IPv6 traffic class
	HopLimit  uint8   // IPv4 TTL or IPv6 hop limit; 0: 64
	FlowLabel uint32  // IPv6; 20 bits. The UDP source port does not depend on it
}

// route is a checked address with defaults filled in.
type route struct {
	path  fabric.Path
	queue *queue // of the port that has the source address
	qpn   ib.QPN
	pkey  ib.PKey
}

// resolve turns an address into a route. Errors unwrap to EINVAL, or to
// EADDRNOTAVAIL when no port has Local.
func (g *Interface) resolve(to *Address) (route, error) {
	dst := to.Remote.Unmap().WithZone("")
	if !reachable(dst) {
		return route{}, fmt.Errorf("MAD to %v: not the address of one host: %w", to.Remote, ib.EINVAL)
	}
	src, q, err := g.source(to.Local.Unmap().WithZone(""), dst)
	if err != nil {
		return route{}, err
	}
	r := route{queue: q, qpn: cmp.Or(to.QPN, ib.QPNGSI), pkey: cmp.Or(to.PKey, g.cfg.PKeys[0]), path: fabric.Path{
		Src: src, Dst: dst, SrcPort: g.cfg.SrcPort, TClass: to.TClass, HopLimit: cmp.Or(to.HopLimit, defaultHopLimit),
	}}
	if dst.Is6() {
		r.path.FlowLabel = to.FlowLabel & 0xfffff
	}
	if !slices.Contains(g.cfg.PKeys, r.pkey) {
		return route{}, fmt.Errorf("MAD with P_Key %#04x, which the port's table does not have: %w", uint16(r.pkey), ib.EINVAL)
	}
	if r.qpn >= ib.QPNMulticast {
		return route{}, fmt.Errorf("MAD to QP %v, which is no queue pair: %w", r.qpn, ib.EINVAL)
	}
	return r, nil
}

// source returns the local address to send from, and the queue of its port.
func (g *Interface) source(local, dst netip.Addr) (netip.Addr, *queue, error) {
	for i, addrs := range g.cfg.Ports {
		for _, a := range addrs {
			if a == local && a.Is4() == dst.Is4() || !local.IsValid() && a.Is4() == dst.Is4() {
				return a, &g.queues[i], nil
			}
		}
	}
	return netip.Addr{}, nil, fmt.Errorf("MAD from %v to %v: the port has no such address of that family: %w", local, dst, ib.EADDRNOTAVAIL)
}

// reachable reports whether a is the address of a single host, which can be
// sent to and can answer.
func reachable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
