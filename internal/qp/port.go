package qp

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// Port is a port of the adapter as queue pairs see it: its addresses, its P_Keys, its UDP
// source port, and the ends that wait for their turn to send from it.
type Port struct {
	Addrs   []netip.Addr // GID table
	PKeys   []ib.PKey
	SrcPort uint16 // UDP source port of all packets; 0 if each path has its own
	// SecondGID gives the GID table of a port with one address a second entry, of
	// the same address.
	SecondGID bool

	// The shard sets these.

	Num       uint8      // from 1
	Active    ActiveList // of ends with a path from the port
	MADsFirst bool       // MADs go before the ends in the next batch

	lost map[netip.Addr]bool // addresses that the host has taken from the port
}

// SetLost records that the port has lost an address, or has it again. Paths from
// a lost address are unusable.
func (p *Port) SetLost(addr netip.Addr, lost bool) {
	switch {
	case !lost:
		delete(p.lost, addr)
	case p.lost == nil:
		p.lost = map[netip.Addr]bool{addr: true}
	default:
		p.lost[addr] = true
	}
}

// GIDs returns the length of the GID table.
func (p *Port) GIDs() int {
	if p.SecondGID && len(p.Addrs) == 1 {
		return 2
	}
	return len(p.Addrs)
}

// GID returns the address of an entry of the GID table, which must exist.
func (p *Port) GID(index int) netip.Addr { return p.Addrs[min(index, len(p.Addrs)-1)] }

// path resolves an address vector to a path from this port: the SGID names the
// local address, the DGID is the remote one, and the flow label, or flow if that
// is 0, chooses the UDP source port. The DGID of an address handle may be that of
// a multicast group: the SGID then names the network too.
func (p *Port) path(av *ib.AHAttr, flow uint32) (Path, error) {
	dst := av.DGID.Addr()
	switch {
	case int(av.SGIDIndex) >= p.GIDs():
		return Path{}, fmt.Errorf("address vector: SGID index %d, the GID table has %d entries: %w", av.SGIDIndex, p.GIDs(), ib.EINVAL)
	case av.HopLimit == 0:
		return Path{}, fmt.Errorf("address vector: hop limit 0 reaches no host: %w", ib.EINVAL)
	case av.DGID.IsZero() || dst.IsUnspecified():
		return Path{}, fmt.Errorf("address vector: no destination GID: %w", ib.EINVAL)
	}
	src := p.GID(int(av.SGIDIndex))
	if src.Is4() != dst.Is4() {
		return Path{}, fmt.Errorf("address vector: SGID %v and DGID %v are of different families: %w", src, dst, ib.EINVAL)
	}
	return Path{Port: p, Path: fabric.Path{
		Src: src, Dst: dst, TClass: av.TrafficClass, HopLimit: av.HopLimit, FlowLabel: av.FlowLabel & 0xfffff,
		SrcPort: cmp.Or(p.SrcPort, roce.SourcePort(cmp.Or(av.FlowLabel, flow))),
	}}, nil
}

// Path is a fabric.Path and the local port that it starts from. The port of an end without an
// address vector is that of its attributes, port 1 until they name one.
type Path struct {
	fabric.Path
	Port *Port
}

// usable reports whether the port has the path's local address.
func (p *Path) usable() bool { return !p.Port.lost[p.Src] }

// Resolve resolves an address vector to a path; flow overrides a flow label of
// zero in the choice of the UDP source port.
func (e *Env) Resolve(av *ib.AHAttr, flow uint32) (Path, error) {
	if n := len(e.Ports); av.Port == 0 || int(av.Port) > n {
		return Path{}, fmt.Errorf("address vector: port %d, the adapter has port %d: %w", av.Port, n, ib.EINVAL)
	}
	return e.port(av.Port).path(av, flow)
}

// port returns the port with number n, which must exist.
func (e *Env) port(n uint8) *Port { return e.Ports[n-1] }
