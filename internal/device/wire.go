package device

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
)

// Wire says how packets reach adapters of the same user on the same host.
type Wire uint8

// The kinds of Wire.
const (
	WireDefault Wire = iota // as the environment says; if it says nothing, defaultWire
	WireUDP                 // by UDP, like packets to other hosts
	WireAuto                // through shared memory where possible, otherwise by UDP
)

// ParseWire returns the kind with the given name.
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

// WireOf returns how packets of an adapter with a configuration would reach other adapters of this
// host. If that is by UDP although WireAuto was asked for, or is the default, why is the reason.
func WireOf(c Config) (w Wire, why error) {
	w, err := c.asked()
	if err != nil {
		return WireUDP, err
	}
	udp := !c.Raw && c.Network == nil
	if w == WireDefault && udp {
		w = defaultWire
	}
	if w != WireAuto {
		return WireUDP, nil
	}
	if !udp {
		return WireUDP, errNotUDP
	}
	addrs, err := resolve(c.Addr)
	if err == nil {
		err = sharesMemory(addrs)
	}
	if err != nil {
		return WireUDP, err
	}
	return WireAuto, nil
}

// errNotUDP is the reason of adapters that do not use UDP.
var errNotUDP = errors.New("only adapters on UDP sockets take shared memory")

// asked returns the kind that the configuration or the environment asks for, WireDefault if neither does.
func (c *Config) asked() (Wire, error) {
	if c.Wire != WireDefault {
		return c.Wire, nil
	}
	w, err := ParseWire(c.Env.Wire)
	if err != nil {
		return 0, fmt.Errorf("%s=%w", wireEnv, err)
	}
	return w, nil
}

// wire returns the kind to use.
func (c *Config) wire() (Wire, error) {
	w, err := c.asked()
	if err != nil {
		return 0, err
	}
	if w == WireDefault {
		w = defaultWire
	}
	if c.Idle || allowed() != nil {
		w = WireUDP
	}
	return w, nil
}
