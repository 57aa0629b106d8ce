package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/iface"
)

// BindAddr binds the ID to a local address and port; the address also selects its
// adapter. An unspecified address stands for all adapters. So does a loopback address
// if no adapter of the Manager has one, as on Linux. Port 0 stands for any free port.
// Errors: EINVAL if the ID is already bound or a is not valid; EADDRNOTAVAIL for an
// address that the host does not have; ENODEV for one without an adapter of the
// Manager; EADDRINUSE if the port is taken at this address; EADDRNOTAVAIL if it is
// taken at another address and one of the two is unspecified; EINVAL for an ID of
// IPoIB and an adapter's address. Only one of the processes that share an address can
// have a port, unless SetReuseAddr was called: the others get EADDRINUSE. Unlike on
// Linux, ports below 1024 need no privilege.
func (id *ID) BindAddr(a netip.AddrPort) error {
	return id.run(fmt.Sprintf("bind to %v", a), func() error { return id.bind(a, true) })
}

// bind binds an idle ID; with alone, no other process can have the port. call is held.
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

// settle claims a port and binds the ID, to an adapter unless dev is nil. With alone,
// it fails if another process that shares the adapters' addresses has the port; for
// port 0 it then tries another port.
func (id *ID) settle(a netip.AddrPort, dev *adapter, alone bool) error {
	const attempts = 64 // random ports: if all are taken, few are free
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
		err = id.become(stateBound) // fails if the adapter is gone
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

// reserve keeps other processes from the port: EADDRINUSE if one has it. Beyond the number
// of ports that a process can reserve it succeeds without: Listen then reports the limit.
func (id *ID) reserve() error {
	if id.settings.reuse {
		return nil
	}
	for _, d := range id.adapters() {
		if d.isGone() {
			continue // becoming bound fails, if it matters
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

// giveBack releases the port to other processes.
func (id *ID) giveBack() {
	for _, d := range id.boundOn {
		d.dev.Release(id.service())
	}
	id.boundOn = nil
}

// local returns the address to which the ID is bound for a local address a: the unspecified
// address for a loopback address that stands for all adapters.
func (m *Manager) local(a netip.AddrPort) netip.AddrPort {
	onLoopback := func(d *adapter) bool { return slices.ContainsFunc(d.addrs, netip.Addr.IsLoopback) }
	if !a.Addr().IsLoopback() || slices.ContainsFunc(m.devices, onLoopback) {
		return a
	}
	return netip.AddrPortFrom(unspecified(a.Addr()), a.Port())
}

// plain returns an address in the form of GID tables: IPv4 unmapped, IPv6 without a
// zone.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// noAdapter returns the error of binding to an address without an adapter.
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
