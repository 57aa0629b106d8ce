package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
)

// DeviceInfo is an adapter that can be opened here, with Config.Addr set to Name.
type DeviceInfo struct {
	Name string // of the network interface
	// GIDs is the GID table that the adapter will have. On an interface with IPv6,
	// index 0 is usually a link-local address; GIDIndex returns another.
	GIDs      []GID
	ActiveMTU MTU
	Loopback  bool // it reaches this host only
}

// Devices returns the adapters that can be opened here, as ibv_get_device_list
// does: one for each network interface that is up and has an IP address that can
// carry packets. It opens none, so an address may turn out to be taken by another
// process. Any address of an interface can be opened by itself too, and on Linux
// every address of 127.0.0.0/8. ENODEV when there is none.
func Devices() ([]DeviceInfo, error) {
	all, err := device.Interfaces()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no network interface is up and has an IP address: %w", ib.ENODEV)
	}
	list := make([]DeviceInfo, len(all))
	for i, n := range all {
		list[i] = DeviceInfo{Name: n.Name, ActiveMTU: n.MTU, Loopback: n.Loopback}
		for _, a := range n.Addrs {
			list[i].GIDs = append(list[i].GIDs, GIDFromAddr(a))
		}
	}
	return list, nil
}

// GIDIndex returns the index of the first GID that is not link-local, so that
// peers beyond the link can reach it; 0 if all are link-local.
func (d DeviceInfo) GIDIndex() int { return routable(d.GIDs) }

// routable returns the index of the first GID that is not link-local, 0 if all are.
func routable(gids []GID) int {
	for i, g := range gids {
		if !g.Addr().IsLinkLocalUnicast() {
			return i
		}
	}
	return 0
}
