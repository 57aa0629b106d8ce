package rdmacm

import (
	"errors"
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
// EADDRNOTAVAIL when at another and one of the two is unspecified; EINVAL for an address
// of an adapter and an ID of IPoIB. Of the processes that share an address one has a port,
// and EADDRINUSE is for the others, unless SetReuseAddr was called. Unlike on
// Linux, ports below 1024 take no privilege.
func (id *ID) BindAddr(a netip.AddrPort) error {
	return id.run(fmt.Sprintf("bind to %v", a), func() error { return id.bind(a, true) })
}

// bind binds an idle ID, alone if no other process is to have the port. call is held.
func (id *ID) bind(a netip.AddrPort, alone bool) error {
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
	return id.settle(a, dev, alone)
}

// settle claims a port and makes the ID a bound one, of an adapter unless dev
// is nil. Where the ID is to have it alone, no other process has it with which the
// adapters share their addresses; who asked for any port gets another then.
func (id *ID) settle(a netip.AddrPort, dev *adapter, alone bool) error {
	const attempts = 64 // at random: so many in vain say that few ports are free
	for range attempts {
		if err := id.settleOnce(a, dev, alone); a.Port() != 0 || !errors.Is(err, ib.EADDRINUSE) {
			return err
		}
	}
	return fmt.Errorf("other processes have the ports of %v: %w", id.ps, ib.EADDRNOTAVAIL)
}

func (id *ID) settleOnce(a netip.AddrPort, dev *adapter, alone bool) error {
	id.m.mu.Lock()
	got, err := id.m.ports.claim(id, a)
	if err == nil {
		id.src, id.dev = got, dev
	}
	id.m.mu.Unlock()
	if err != nil {
		return err
	}
	if alone {
		err = id.reserve()
	}
	if err == nil {
		err = id.become(stateBound) // unless the adapter is gone
	}
	if err != nil {
		id.giveBack()
		id.m.mu.Lock()
		id.m.ports.release(id)
		id.src, id.dev = netip.AddrPort{}, nil
		id.m.mu.Unlock()
	}
	return err
}

// reserve keeps other processes from the port: EADDRINUSE if one has it. Beyond as many
// ports as a process can keep, which is for Listen to say, it does without.
func (id *ID) reserve() error {
	if id.settings.reuse {
		return nil
	}
	for _, d := range id.adapters() {
		if d.isGone() {
			continue // which becoming bound finds out, if it matters
		}
		switch err := d.dev.Claim(id.service()); {
		case err == nil:
			id.boundOn = append(id.boundOn, d)
		case !errors.Is(err, ib.ENOMEM):
			return err
		}
	}
	return nil
}

// giveBack lets other processes have the port.
func (id *ID) giveBack() {
	for _, d := range id.boundOn {
		d.dev.Release(id.service())
	}
	id.boundOn = nil
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
