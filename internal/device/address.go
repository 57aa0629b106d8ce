package device

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/ib"
)

// resolve returns the addresses that Config.Addr names.
func resolve(spec string) ([]netip.Addr, error) {
	if spec == "" {
		return firstUsable()
	}
	if ifc, err := net.InterfaceByName(spec); err == nil {
		return interfaceAddrs(ifc)
	}
	var addrs []netip.Addr
	for part := range strings.SplitSeq(spec, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("address %q: neither an IP address nor a network interface; `ip address` lists them: %w", part, ib.EINVAL)
		}
		addrs = append(addrs, a.Unmap().WithZone(""))
	}
	return addrs, nil
}

// firstUsable returns the first address of an interface that is up, a real
// network before the loopback, IPv4 before IPv6.
func firstUsable() ([]netip.Addr, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, loopback := range []bool{false, true} {
		for i := range ifs {
			f := ifs[i].Flags
			if f&net.FlagUp == 0 || (f&net.FlagLoopback != 0) != loopback {
				continue
			}
			addrs, err := interfaceAddrs(&ifs[i])
			if err != nil {
				continue
			}
			for _, a := range addrs {
				if a.Is4() {
					return []netip.Addr{a}, nil
				}
			}
			return addrs[:1], nil
		}
	}
	return nil, fmt.Errorf("no network interface is up: name an address: %w", ib.ENODEV)
}

// interfaceAddrs returns an interface's addresses in the order of Linux's GID
// table: link-local, IPv4, other IPv6.
func interfaceAddrs(ifc *net.Interface) ([]netip.Addr, error) {
	all, err := ifc.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", ifc.Name, err)
	}
	var ll, v4, v6 []netip.Addr
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch ip := p.Addr().Unmap().WithZone(""); {
		case ip.Is4():
			v4 = append(v4, ip)
		case ip.IsLinkLocalUnicast():
			ll = append(ll, ip)
		default:
			v6 = append(v6, ip)
		}
	}
	addrs := append(append(ll, v4...), v6...)
	if len(addrs) == 0 {
		return nil, fmt.Errorf("interface %s has no IP address: %w", ifc.Name, ib.ENODEV)
	}
	return addrs, nil
}
