//go:build !portable

package device

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// errShaped is returned if packets to an address pass a queueing discipline, which a user may have
// set up to delay, lose or limit them.
var errShaped = errors.New("packets to the address are shaped")

// unshaped returns an error if packets to an address of this host pass a queueing discipline.
func unshaped(a netip.Addr) error {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil {
		return fmt.Errorf("route to %s: %w", a, err)
	}
	for i := range routes {
		link, err := netlink.LinkByIndex(routes[i].LinkIndex)
		if err != nil {
			return fmt.Errorf("interface to %s: %w", a, err)
		}
		all, err := netlink.QdiscList(link)
		if err != nil {
			return fmt.Errorf("queueing discipline of %s: %w", link.Attrs().Name, err)
		}
		for _, q := range all {
			if q.Type() != "noqueue" {
				return fmt.Errorf("%w: by %s of %s", errShaped, q.Type(), link.Attrs().Name)
			}
		}
	}
	return nil
}
