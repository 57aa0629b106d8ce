//go:build !portable

package device

import (
	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near"
	"github.com/softhca/softhca/internal/fabric/udp"
)

// openUDP opens a port on UDP. With WireAuto, packets to processes of this user on this host take
// shared memory; sealed means that something above the port writes or damages packets.
func (c *Config) openUDP(u udp.Config, sealed bool) (fabric.Port, error) {
	w, err := c.wire()
	if err != nil {
		return nil, err
	}
	p, err := udp.Open(u)
	if err != nil {
		return nil, err
	}
	c.backlog = p.Backlog
	if w != WireAuto {
		return p, nil
	}
	return near.Wrap(p, near.Config{Slot: c.QPNSlot, Sealed: sealed, Secret: c.Env.Secret(), Counts: u.Counts, Permit: unshaped, Log: c.Warn})
}

// dumpable reports whether other processes of the user may read the memory of this one.
func dumpable() bool {
	is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err == nil && is == 1
}
