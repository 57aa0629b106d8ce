package raw

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric/iface"
)

// Config configures a port.
type Config struct {
	// Addrs are the local addresses, in the order of the GID table, at most
	// 16. A zone is not needed.
	Addrs []netip.Addr
	// RecvBuffer and SendBuffer are the bytes of socket buffer to ask for; 0
	// means 4 MiB. The system may grant less: see fabric.Caps.RecvBuffer.
	RecvBuffer int
	SendBuffer int
}

const (
	defaultBuffer = 4 << 20
	// maxAddrs keeps the filter short, since every packet of the host passes
	// it.
	maxAddrs = 16
)

// normal returns the configuration with defaults filled in, or an error if it
// is invalid.
func (c Config) normal() (Config, error) {
	addrs, err := iface.Clean(c.Addrs)
	if err != nil {
		return c, fmt.Errorf("raw: %w", err)
	}
	if len(addrs) > maxAddrs {
		return c, fmt.Errorf("raw: %d addresses: at most %d", len(addrs), maxAddrs)
	}
	c.Addrs = addrs
	c.RecvBuffer = cmp.Or(max(c.RecvBuffer, 0), defaultBuffer)
	c.SendBuffer = cmp.Or(max(c.SendBuffer, 0), defaultBuffer)
	return c, nil
}
