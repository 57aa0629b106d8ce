//go:build !linux || portable

package device

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/udp"
)

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

// dumpable returns true: processes share no memory on this system.
func dumpable() bool { return true }
