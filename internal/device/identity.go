package device

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric/iface"
)

// Identity is what can be said of an adapter before it is opened.
type Identity struct {
	NodeGUID   uint64
	GUIDStays  bool         // another process that opens the adapter gives it the same
	Addrs      []netip.Addr // in the order of the GID table
	Interfaces []string     // that have them
}

// Identify returns the identity of the adapter that Open would open on sockets. The
// errors are those of addresses that are none, or not this host's; an address
// that is in use is none.
func Identify(cfg Config) (Identity, error) {
	var i Identity
	addrs, err := resolve(cfg.Addr)
	if err != nil {
		return i, err
	}
	if i.Addrs, err = iface.Clean(addrs); err != nil {
		return i, fmt.Errorf("address %q: %w", cfg.Addr, err)
	}
	for _, a := range i.Addrs {
		nif, err := iface.Owner(a)
		if err != nil {
			return i, err
		}
		i.Interfaces = append(i.Interfaces, nif.Name)
	}
	i.NodeGUID, i.GUIDStays, err = cfg.guid(i.Addrs[0])
	return i, err
}
