package hca

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
)

// ActiveMTU returns the largest path MTU of a port; false if the port is too small
// for any.
func ActiveMTU(c fabric.Caps) (ib.MTU, bool) { return ib.MTUFor(c.MTU - headroom) }

// GID returns the entry of the port's GID table, the zero GID past its end.
func (h *HCA) GID(index int) ib.GID {
	if index < 0 || index >= h.GIDs() {
		return ib.GID{}
	}
	return ib.GIDFromAddr(h.env.Ports[0].GID(index))
}

// GIDs returns the length of the GID table.
func (h *HCA) GIDs() int { return h.env.Ports[0].GIDs() }
