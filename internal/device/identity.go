package device

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/fabric/iface"
)

// Identity holds the attributes of an adapter that are known before it is
// opened.
type Identity struct {
	NodeGUID   uint64
	GUIDStays  bool         // another process that opens the adapter derives the same GUID
	Addrs      []netip.Addr // in the order of the GID table
	Interfaces []string     // interfaces with these addresses
}

// Identify returns the identity of the adapter that Open would open on sockets. It
// fails for invalid addresses and addresses of other hosts, but not for an address
// in use.
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
