package device

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/hca"
)

// PathMTU returns the largest path MTU whose packets fit the host's route from src to dst. It
// returns false if the route's MTU is unknown or too small for any.
func PathMTU(src, dst netip.Addr) (ib.MTU, bool) {
	mtu, ok := iface.RouteMTU(src, dst)
	if !ok {
		return 0, false
	}
	return hca.ActiveMTU(fabric.Caps{MTU: iface.Payload(mtu, dst)})
}
