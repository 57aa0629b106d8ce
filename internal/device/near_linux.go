//go:build !portable

package device

import (
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
)

// defaultWire is the kind of adapters for which nothing asks for one.
const defaultWire = WireAuto

// openUDP opens a port on UDP. With WireAuto, packets to processes of this user on this host take
// shared memory; sealed says that something above the port captures or damages packets.
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

// NearLimit is the maximum number of processes with which one shares memory.
const NearLimit = meeting.MaxPeers

// AskNear returns the number of processes with which the one with a slot on an address shares
// memory. ok is false if it uses UDP only, or does not answer.
func AskNear(secret *identity.Secret, a netip.Addr, slot uint8) (peers int, ok bool) {
	n, err := near.Ask(secret, a, slot)
	return n, err == nil
}

// NearPairs returns the number of pairs of processes of this host, of any user, that share memory. It
// is 0 if the system does not say.
func NearPairs() int {
	n, err := near.Pairs()
	if err != nil {
		return 0
	}
	return n
}

// sharesMemory returns the reason why this process takes UDP to other processes of this host, whatever its
// Wire, or nil.
func sharesMemory(addrs []netip.Addr) error {
	if err := allowed(); err != nil {
		return err
	}
	for _, a := range addrs {
		if err := unshaped(a); err != nil {
			return err
		}
	}
	return nil
}

// allowed returns the reason why this process shares memory with no other one, or nil.
func allowed() error { return meeting.Allowed() }
