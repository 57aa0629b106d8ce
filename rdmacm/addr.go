package rdmacm

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
// "server:7471" names; without a host, the unspecified address.
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
		if ips, err = lookupHost(ctx, host); err != nil {
			return nil, err
		}
	}
	all := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		all = append(all, plain(netip.AddrPortFrom(ip, uint16(port))))
	}
	return all, nil
}

// lookupHost returns the addresses of a host, or the address if host is one. It
// returns at least one.
func lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("host %q has no address: %w", host, ib.EADDRNOTAVAIL)
	}
	return ips, err
}

// reachable returns the first of some addresses whose family an adapter has; the
// first of all if there is none.
func (m *Manager) reachable(all []netip.AddrPort) netip.AddrPort {
	for _, a := range all {
		if m.nearest(a.Addr()) != nil {
			return a
		}
	}
	return all[0]
}
