//go:build !portable

package meeting

import (
	"fmt"
	"net/netip"
)

// Ask returns the number of peers of the process at a place. Base is what the address contributes
// to its name. It waits for at most helloTime. Errors: ErrNone if no process there meets others,
// ErrUser, ErrVersion, ErrMessage.
func Ask(base string, at Key) (peers int, err error) {
	c, err := dial(nameOf(base, at.Slot))
	if err != nil {
		return 0, err
	}
	defer c.close()
	to, nobody := Identity{Addr: at.Addr, Slot: at.Slot}, Identity{Addr: netip.IPv6Unspecified()}
	if err := c.send(&message{kind: inquiry, from: nobody, to: to}, -1); err != nil {
		return 0, err
	}
	m, fd, err := c.receive()
	closeAll([]int{fd})
	if err != nil {
		return 0, err
	}
	if m.kind != status || m.from.Key() != at || m.number > MaxPeers {
		return 0, fmt.Errorf("%w: answer %d of %d peers", ErrMessage, m.kind, m.number)
	}
	return int(m.number), nil
}

// tell answers an inquiry.
func (h *Host) tell(c *conn, m *message) error {
	n := 0
	if h.cfg.Peers != nil {
		n = h.cfg.Peers()
	}
	return c.send(&message{kind: status, number: uint64(min(n, MaxPeers)), from: h.cfg.Self, to: m.from}, -1)
}
