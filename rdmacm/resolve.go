package rdmacm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric/iface"
)

// ResolveAddr finds the adapter and the source address for a peer's address, and raises
// ADDR_RESOLVED or ADDR_ERROR. An idle ID is first bound to src or, if src is the zero
// value or unspecified, to a free port; for a bound ID src is ignored. Without a bound
// address, the source is the address from which the host would send to dst, if an
// adapter has it, otherwise the first of the same family. A dst that would stand for all
// adapters in BindAddr means this side.
//
// ResolveAddr sends nothing and does not wait, so it has no timeout. Errors: EINVAL in
// another state, for addresses of different families and for an invalid dst; ENETUNREACH
// without a route; those of BindAddr. The status of ADDR_ERROR is -ENODEV if no adapter has
// an address of the family, -EINVAL for IPoIB. After ADDR_ERROR the ID is bound and may
// resolve again.
func (id *ID) ResolveAddr(src, dst netip.AddrPort) error {
	if err := disturb(id, "CMResolveAddr"); err != nil {
		return err
	}
	return id.start(fmt.Sprintf("resolve address %v", dst), func() error { return id.resolveAddr(src, dst) }, EventAddrResolved)
}

func (id *ID) resolveAddr(src, dst netip.AddrPort) error {
	if !dst.IsValid() {
		return fmt.Errorf("no address: %w", ib.EINVAL)
	}
	dst = id.m.local(plain(dst))
	if err := id.bindFor(src, dst); err != nil {
		return err
	}
	dev, from, err := id.at.route(dst.Addr())
	if err != nil {
		return err
	}
	if dev == nil || id.at.ps == IPoIB {
		id.inbox.post(addrError(id.at.ps, dst.Addr()))
		return nil
	}
	if dst.Addr().IsUnspecified() {
		dst = netip.AddrPortFrom(from, dst.Port())
	}
	id.m.mu.Lock()
	id.at.place = place{dev, netip.AddrPortFrom(from, id.at.src.Port()), dst}
	id.m.mu.Unlock()
	return id.link.become(stateAddrResolved, EventAddrResolved)
}

// addrError returns the event of an address that no adapter can reach.
func addrError(ps PortSpace, dst netip.Addr) *Event {
	err := fmt.Errorf("no open adapter has a route to %v: open one on the source address of that route: %w", dst, ib.ENODEV)
	errno := ib.ENODEV
	if ps == IPoIB {
		errno = ib.EINVAL
		err = fmt.Errorf("RoCE has no port space %v: %w", ps, errno)
	}
	return &Event{Type: EventAddrError, Status: -int(errno), Err: err}
}

// bindFor binds the ID before it is resolved, and checks the address family of a bound
// one.
func (id *ID) bindFor(src, dst netip.AddrPort) error {
	bound := id.link.in(stateBound) == nil
	if bound {
		src = id.at.src
	} else if err := id.link.in(stateIdle); err != nil {
		return err
	} else if !src.IsValid() {
		src = netip.AddrPortFrom(unspecified(dst.Addr()), src.Port())
	}
	src = plain(src)
	if a := src.Addr(); a.Is4() != dst.Addr().Is4() {
		return fmt.Errorf("source %v is of another address family: %w", a, ib.EINVAL)
	}
	if bound {
		return nil
	}
	// No peer connects to a port that the program did not request, so other processes may
	// have it too.
	return id.bind(src, src.Port() != 0)
}

// unspecified returns the unspecified address of the family of a.
func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// route returns the adapter and the source address for a destination; a nil adapter if
// none reaches it.
func (b *binding) route(dst netip.Addr) (*adapter, netip.Addr, error) {
	if own := b.src.Addr(); !own.IsUnspecified() {
		return b.dev, own, nil
	}
	if d := b.m.find(dst); d != nil {
		return d, dst, nil
	}
	var err error
	if slices.ContainsFunc(b.m.devices, func(d *adapter) bool { return !d.inside }) {
		var from netip.Addr
		if from, err = iface.SourceTo(dst); err == nil {
			if d := b.m.find(from); d != nil {
				return d, from, nil
			}
		}
	}
	near := b.m.nearest(dst)
	if near == nil || err != nil && !near.inside {
		return nil, netip.Addr{}, err
	}
	from, _ := near.first(dst)
	return near, from, nil
}

// nearest returns the first adapter with an address that can reach a; for a loopback
// address it prefers one with a loopback address. It returns nil if there is none.
func (m *Manager) nearest(a netip.Addr) *adapter {
	var other *adapter
	for _, d := range m.devices {
		own, ok := d.first(a)
		switch {
		case !ok || d.isGone():
		case own.IsLoopback() == a.IsLoopback():
			return d
		case own.IsLoopback() && !d.inside && !a.IsUnspecified() && !ofHost(a):
			// Packets from a loopback address cannot leave the host.
		case other == nil:
			other = d
		}
	}
	return other
}

// ResolveRoute finds the path to the resolved address, and raises ROUTE_RESOLVED. It
// sends no packets. The path has the current values of SetTOS and SetAckTimeout. Its
// path MTU fits the adapter's interface and, on Linux, the host's route to the address,
// which may have a lower MTU. The MTU of the peer's interface is unknown: if it is
// lower, set the path MTU with SetRoute. EINVAL unless the address is resolved and the
// route is not.
func (id *ID) ResolveRoute() error {
	if err := disturb(id, "CMResolveRoute"); err != nil {
		return err
	}
	return id.start("resolve route", func() error {
		if err := id.link.in(stateAddrResolved); err != nil {
			return err
		}
		src, dst := id.at.src, id.at.dst
		r := Route{
			FlowLabel: flowLabel(src.Port(), dst.Port()), HopLimit: cm.DefaultHopLimit, Lifetime: cm.DefaultLifetime,
			TrafficClass: id.link.settings.tos,
			MTU:          id.at.dev.mtuTo(src.Addr(), dst.Addr()), // a system call, which the control plane must not make
		}
		if t := id.link.settings.ackTimeout; t != 0 {
			r.Lifetime = max(t-1, 1)
		}
		return id.at.do(func(clock.Instant) error { return id.link.setRoute(r) })
	}, EventRouteResolved)
}

// flowLabel derives the flow label from the ports as rdma_cm does, so that both sides
// use the same UDP source port.
func flowLabel(src, dst uint16) uint32 { return (uint32(src)*31 + uint32(dst)) & 0xfffff }
