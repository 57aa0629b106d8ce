package broker

import "net/netip"

// Config says what a broker serves.
type Config struct {
	Addrs []netip.Addr // without zones, in the order of the GID table
	Slots int          // processes that can join at a time
	GUID  uint64       // node GUID of all of them
	Log   func(format string, args ...any)

	hosted bool // by members, of which another one follows one that ends
}
