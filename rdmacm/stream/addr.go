package stream

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/softhca/softhca/ib"
)

// Addr is an address and a port of port space TCP, as a net.Addr.
type Addr struct{ netip.AddrPort }

// Network returns "rdma".
func (Addr) Network() string { return "rdma" }

// lookup returns the addresses that a text such as "10.0.0.1:7471" or
// "server:7471" names, at least one; without a host, the unspecified address.
func lookup(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ib.EINVAL)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	ips := []netip.Addr{netip.IPv4Unspecified()}
	if host != "" {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	all := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(port)))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("host %q has no address: %w", host, ib.EADDRNOTAVAIL)
	}
	return all, nil
}
