package adapter

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// lookupHost returns the address of a host: an IP address, or the first answer for a
// name in the family of like, or in any family if like is invalid. It blocks on the
// resolver until ctx ends.
func lookupHost(ctx context.Context, host string, like netip.Addr) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	network := "ip"
	switch {
	case like.Is4():
		network = "ip4"
	case like.Is6():
		network = "ip6"
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("host %q is neither an IP address nor a name that resolves: %w", host, err)
	}
	return all[0].Unmap(), nil // without an error there is an answer
}

// Route returns the address from which the kernel would send to peer.
func Route(ctx context.Context, peer netip.Addr) (netip.Addr, error) {
	// Connecting a UDP socket looks up the route and sends nothing.
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(peer, roce.Port).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no route to %v: %w", peer, text.Bare(err))
	}
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	if err := conn.Close(); err != nil {
		return netip.Addr{}, fmt.Errorf("find the route to %v: %w", peer, err)
	}
	return local.Unmap().WithZone(""), nil
}

// firstInterface returns the name of the first network interface that is up
// and has an address; a real network before the loopback.
func firstInterface() (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list network interfaces: %w", err)
	}
	for _, loopback := range []bool{false, true} {
		for i := range all {
			f := all[i].Flags
			if f&net.FlagUp != 0 && (f&net.FlagLoopback != 0) == loopback && usable(&all[i]) {
				return all[i].Name, nil
			}
		}
	}
	return "", fmt.Errorf("no network interface is up: name an address with --addr: %w", ib.ENODEV)
}

// usable reports whether an interface has an address.
func usable(ifc *net.Interface) bool {
	addrs, err := ifc.Addrs()
	return err == nil && len(addrs) > 0 // with an error the interface vanished after the listing
}
