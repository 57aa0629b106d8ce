package device

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/environ"
)

// Wire says how packets reach adapters of the same user on the same host.
type Wire uint8

// The kinds of Wire.
const (
	WireDefault Wire = iota // as the environment says, by UDP if it says nothing
	WireUDP                 // by UDP, like packets to other hosts
	WireAuto                // through shared memory
)

// ParseWire returns the kind with a name.
func ParseWire(name string) (Wire, error) {
	switch name {
	case "":
		return WireDefault, nil
	case "udp":
		return WireUDP, nil
	case "auto":
		return WireAuto, nil
	}
	return 0, fmt.Errorf("%q: want udp or auto: %w", name, ib.EINVAL)
}

// wire returns the kind to use.
func (c *Config) wire() (Wire, error) {
	w := c.Wire
	if w == WireDefault {
		var err error
		if w, err = ParseWire(c.Env.Wire); err != nil {
			return 0, fmt.Errorf("%s=%w", wireEnv, err)
		}
	}
	// A process that others may not trace shares no memory either.
	if c.Idle || environ.Privileged() || !dumpable() {
		w = WireUDP
	}
	return w, nil
}
