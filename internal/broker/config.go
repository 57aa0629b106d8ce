package broker

import "net/netip"

// Config is the configuration of a broker.
type Config struct {
	Addrs []netip.Addr // without zones, in the order of the GID table
	Slots int          // maximum number of members
	GUID  uint64       // node GUID of all of them
	Log   func(format string, args ...any)

	hosted bool // a member runs the broker; when it ends, another takes over
}
