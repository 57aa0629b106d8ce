package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/mad"
)

// binding is the local and peer address of an ID, with its adapter, port space and service.
// It holds the port in the Manager's table. If other processes share the address of an
// adapter, it also reserves the port at that adapter. A listener's binding keeps the port's
// service open.
//
// The fields are written with ID.call and m.mu held: either suffices to read. Service,
// adapter and addresses are final once the peer's address is resolved, and in the ID of a
// request from the start; then the adapter's control plane reads them without a lock.
type binding struct {
	m   *Manager
	ps  PortSpace
	typ ib.QPType
	place

	reuse    bool // of SetReuseAddr
	afSet    bool // afOnly was set by SetAFOnly
	afOnly   bool
	listener *ID // the ID, while it takes requests

	// ID.call guards what follows.
	reserved []*adapter // the port is reserved there against other processes
	open     []*adapter // the service is open there
}

// place is an adapter with an address and port of it and those of a peer.
type place struct {
	dev      *adapter // nil: none yet, or all
	src, dst netip.AddrPort
}

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
	if err := disturb(id, "CMBindAddr"); err != nil {
		return err
	}
	return id.run(fmt.Sprintf("bind to %v", a), func() error { return id.bind(a, true) })
}

// bind binds an idle ID; with alone, no other process can have the port. call is held.
func (id *ID) bind(a netip.AddrPort, alone bool) error {
	if err := id.link.in(stateIdle); err != nil {
		return err
	}
	if err := id.at.bind(a, alone); err != nil {
		return err
	}
	err := id.link.become(stateBound) // fails if the adapter is gone
	if err != nil {
		id.at.unbind()
	}
	return err
}

// do runs f in the adapter's control plane or, while there is no adapter, here. ID.call is held.
func (b *binding) do(f func(now clock.Instant) error) error {
	if b.dev == nil {
		return f(0)
	}
	return b.dev.do(f)
}

// adapters returns the adapters of the address.
func (b *binding) adapters() []*adapter {
	if b.dev != nil {
		return []*adapter{b.dev}
	}
	return b.m.devices
}

// service returns the service ID of the port.
func (b *binding) service() mad.ServiceID { return mad.IPServiceID(b.ps, b.src.Port()) }

// bind claims an address and port; with alone, no other process can have the port.
func (b *binding) bind(a netip.AddrPort, alone bool) error {
	if !a.IsValid() {
		return fmt.Errorf("no address: %w", ib.EINVAL)
	}
	a = b.m.local(plain(a))
	var dev *adapter
	if !a.Addr().IsUnspecified() {
		if dev = b.m.find(a.Addr()); dev == nil {
			return noAdapter(a.Addr())
		}
		if b.ps == IPoIB {
			return fmt.Errorf("%v is an address of Ethernet: %w", a.Addr(), ib.EINVAL)
		}
	}
	const attempts = 64 // random ports: if all are taken, few are free
	for range attempts {
		if err := b.claim(a, dev, alone); a.Port() != 0 || !errors.Is(err, ib.EADDRINUSE) {
			return err
		}
	}
	return fmt.Errorf("other processes use the ports of %v: %w", b.ps, ib.EADDRNOTAVAIL)
}

// claim claims a port, on an adapter unless dev is nil. With alone, it fails if another
// process that shares the adapters' addresses has the port.
func (b *binding) claim(a netip.AddrPort, dev *adapter, alone bool) error {
	b.m.mu.Lock()
	got, err := b.m.ports.claim(b, a)
	if err == nil {
		b.place = place{dev: dev, src: got}
	}
	b.m.mu.Unlock()
	if err != nil || !alone {
		return err
	}
	if err = b.reserve(); err != nil {
		b.unbind()
	}
	return err
}

// unbind undoes bind.
func (b *binding) unbind() {
	b.giveBack()
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	b.m.ports.release(b)
	b.place = place{}
}

// reserve keeps other processes from the port: EADDRINUSE if one has it. Beyond the number
// of ports that a process can reserve it succeeds without: Listen then reports the limit.
func (b *binding) reserve() error {
	if b.reuse {
		return nil
	}
	for _, d := range b.adapters() {
		if d.isGone() {
			continue // becoming bound fails, if it matters
		}
		switch err := d.dev.Claim(b.service()); {
		case err == nil:
			b.reserved = append(b.reserved, d)
		case !errors.Is(err, ib.ENOMEM):
			return err
		}
	}
	return nil
}

// giveBack releases the port to other processes.
func (b *binding) giveBack() {
	for _, d := range b.reserved {
		d.dev.Release(b.service())
	}
	b.reserved = nil
}

// close releases the service and the port to other processes. The port in the Manager's
// table is released with the ID.
func (b *binding) close() {
	b.stopListening()
	b.giveBack()
}

// covers reports whether a listener's address covers a. An unspecified address also
// covers the other family, unless the binding is restricted to its own.
func (b *binding) covers(a netip.Addr) bool {
	own := b.src.Addr()
	if !own.IsUnspecified() {
		return own == a
	}
	return a.Is4() == own.Is4() || !b.only(own)
}

// only reports whether a binding to an address is restricted to its family: by
// SetAFOnly or, if that was not called, with IPv4.
func (b *binding) only(a netip.Addr) bool {
	if b.afSet {
		return b.afOnly
	}
	return a.Is4()
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
