package rdmacm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/iface"
)

// BindAddr gives the ID a local address and port, and with the address its
// adapter. An unspecified address stands for all adapters, and so does a loopback
// address, as on Linux, where no adapter of the Manager has one; port 0 for any that
// is free. Errors: EINVAL when the ID is bound already or a is not valid,
// EADDRNOTAVAIL for an address that the host has not, ENODEV for one without
// an adapter of the Manager, EADDRINUSE when the port is taken at this address,
// EADDRNOTAVAIL when at another and one of the two is unspecified. Unlike on
// Linux, ports below 1024 take no privilege.
func (id *ID) BindAddr(a netip.AddrPort) error {
	return id.run(fmt.Sprintf("bind to %v", a), func() error { return id.bind(a) })
}

// bind binds an idle ID. call is held.
func (id *ID) bind(a netip.AddrPort) error {
	if !a.IsValid() {
		return fmt.Errorf("no address: %w", ib.EINVAL)
	}
	if err := id.in(stateIdle); err != nil {
		return err
	}
	a = id.m.local(plain(a))
	var dev *adapter
	if !a.Addr().IsUnspecified() {
		if dev = id.m.find(a.Addr()); dev == nil {
			return noAdapter(a.Addr())
		}
		if id.ps == IPoIB {
			return fmt.Errorf("%v is an address of Ethernet: %w", a.Addr(), ib.EINVAL)
		}
	}
	return id.settle(a, dev)
}

// settle claims a port and makes the ID a bound one, of an adapter unless dev
// is nil.
func (id *ID) settle(a netip.AddrPort, dev *adapter) error {
	id.m.mu.Lock()
	got, err := id.m.ports.claim(id, a)
	if err == nil {
		id.src, id.dev = got, dev
	}
	id.m.mu.Unlock()
	if err != nil {
		return err
	}
	if err = id.become(stateBound); err != nil { // the adapter is gone
		id.m.mu.Lock()
		id.m.ports.release(id)
		id.src, id.dev = netip.AddrPort{}, nil
		id.m.mu.Unlock()
	}
	return err
}

// local returns an address of this side as it is bound to: unspecified for a loopback
// address that stands for all adapters.
func (m *Manager) local(a netip.AddrPort) netip.AddrPort {
	onLoopback := func(d *adapter) bool { return slices.ContainsFunc(d.addrs, netip.Addr.IsLoopback) }
	if !a.Addr().IsLoopback() || slices.ContainsFunc(m.devices, onLoopback) {
		return a
	}
	return netip.AddrPortFrom(unspecified(a.Addr()), a.Port())
}

// plain returns an address as GID tables have it: IPv4 as such, IPv6 without
// a zone.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// noAdapter returns why an address cannot be bound to.
func noAdapter(a netip.Addr) error {
	if a.IsLoopback() || ofHost(a) {
		return fmt.Errorf("no adapter has the address %v: %w", a, ib.ENODEV)
	}
	return fmt.Errorf("neither an adapter nor the host has the address %v: %w", a, ib.EADDRNOTAVAIL)
}

// ofHost reports whether an interface of the host has an address.
func ofHost(a netip.Addr) bool {
	_, err := iface.Owner(a)
	return err == nil
}
