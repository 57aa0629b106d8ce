//go:build !linux || portable

package device

import (
	"errors"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/identity"
)

// defaultWire is the kind of adapters for which nothing asks for one.
const defaultWire = WireUDP

// openUDP opens a port on UDP.
func (c *Config) openUDP(u udp.Config, _ bool) (fabric.Port, error) {
	if _, err := c.wire(); err != nil {
		return nil, err
	}
	p, err := udp.Open(u)
	if err != nil {
		return nil, err
	}
	c.backlog = p.Backlog
	return p, nil
}

// NearLimit is the maximum number of processes with which one shares memory.
const NearLimit = 0

// AskNear reports that the process with a slot on an address uses UDP only.
func AskNear(*identity.Secret, netip.Addr, uint8) (peers int, ok bool) { return 0, false }

// NearPairs returns the number of pairs of processes that share memory.
func NearPairs() int { return 0 }

// sharesMemory returns the reason why processes of this system do not.
func sharesMemory([]netip.Addr) error { return errors.New("this system has no shared memory for it") }

// allowed returns nil: no port of this system shares memory.
func allowed() error { return nil }
