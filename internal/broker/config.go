package broker

import (
	"net/netip"

	"github.com/softhca/softhca/internal/identity"
)

// Config is the configuration of a broker, and of a process that joins one.
type Config struct {
	Addrs []netip.Addr                     // without zones, in the order of the GID table
	Slots int                              // maximum number of members; Enter and Join ignore it
	GUID  uint64                           // node GUID of all of them; Join ignores it
	Log   func(format string, args ...any) // nil discards

	// Secret is the user's secret. From it processes derive the private name of the broker's
	// socket, which works even if another user has taken the public name; nil if the user has
	// none.
	Secret *identity.Secret

	hosted bool // a member runs the broker; when it ends, another takes over
}

// log reports what the user of this process should know.
func (c *Config) log(format string, args ...any) {
	if c.Log != nil {
		c.Log(format, args...)
	}
}
