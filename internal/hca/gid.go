package hca

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// ActiveMTU returns the largest path MTU of a port; false if the port is too small
// for any.
func ActiveMTU(c fabric.Caps) (ib.MTU, bool) { return ib.MTUFor(c.MTU - headroom) }

// GID returns the entry of the port's GID table, the zero GID past its end.
func (h *HCA) GID(index int) ib.GID {
	if index < 0 || index >= len(h.cfg.Caps.Addrs) {
		return ib.GID{}
	}
	return ib.GIDFromAddr(h.cfg.Caps.Addrs[index])
}

// GIDs returns the length of the GID table.
func (h *HCA) GIDs() int { return len(h.cfg.Caps.Addrs) }

// route resolves an address vector to a path: the SGID names the local address,
// the DGID is the remote one, and the flow label, or flow if that is 0, chooses
// the UDP source port. The DGID of an address handle may be that of a multicast
// group: the SGID then names the network too.
func (s *Shard) route(av *ib.AHAttr, flow uint32) (fabric.Path, error) {
	addrs := s.cfg.Caps.Addrs
	dst := av.DGID.Addr()
	switch {
	case av.Port != 1:
		return fabric.Path{}, fmt.Errorf("address vector: port %d, the adapter has port 1: %w", av.Port, ib.EINVAL)
	case int(av.SGIDIndex) >= len(addrs):
		return fabric.Path{}, fmt.Errorf("address vector: SGID index %d, the GID table has %d entries: %w", av.SGIDIndex, len(addrs), ib.EINVAL)
	case av.HopLimit == 0:
		return fabric.Path{}, fmt.Errorf("address vector: hop limit 0 reaches nobody: %w", ib.EINVAL)
	case av.DGID.IsZero() || dst.IsUnspecified():
		return fabric.Path{}, fmt.Errorf("address vector: no destination GID: %w", ib.EINVAL)
	}
	src := addrs[av.SGIDIndex]
	if src.Is4() != dst.Is4() {
		return fabric.Path{}, fmt.Errorf("address vector: SGID %v and DGID %v are of different families: %w", src, dst, ib.EINVAL)
	}
	return fabric.Path{
		Src: src, Dst: dst, TClass: av.TrafficClass, HopLimit: av.HopLimit, FlowLabel: av.FlowLabel & 0xfffff,
		SrcPort: cmp.Or(s.cfg.Caps.SrcPort, roce.SourcePort(cmp.Or(av.FlowLabel, flow))),
	}, nil
}
