package device

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/hca"
)

// Interface is a network interface that an adapter can be opened on.
type Interface struct {
	Name     string
	Addrs    []netip.Addr // the GID table, without zones
	MTU      ib.MTU
	Loopback bool
}

// Interfaces returns the network interfaces that are up, have an IP address, and
// have an MTU of at least the minimum path MTU.
func Interfaces() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var usable []Interface
	for i := range all {
		if all[i].Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := interfaceAddrs(&all[i])
		if err != nil {
			continue // it has no addresses, or was just removed
		}
		caps := fabric.Caps{MTU: iface.Payload(all[i].MTU, addrs[0])}
		for _, a := range addrs {
			caps.MTU = min(caps.MTU, iface.Payload(all[i].MTU, a))
		}
		if mtu, ok := hca.ActiveMTU(caps); ok {
			usable = append(usable, Interface{all[i].Name, addrs, mtu, all[i].Flags&net.FlagLoopback != 0})
		}
	}
	return usable, nil
}
