package rdmacm

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// Route holds the attributes of a path, apart from its addresses: the fields of a path
// record that apply to RoCE.
type Route struct {
	FlowLabel    uint32 // 20 bits
	TrafficClass uint8  // of IP
	HopLimit     uint8
	SL           uint8 // 4 bits
	MTU          ib.MTU
	Lifetime     uint8 // of a packet: a 5-bit code for 4.096 µs · 2^code; 0: as ResolveRoute sets it
}

// check returns an error if a route is invalid for an adapter.
func (r *Route) check(d *adapter) error {
	const maxFlowLabel, maxSL = 1<<20 - 1, 15
	switch {
	case r.MTU < ib.MTU256 || r.MTU > d.mtu:
		return fmt.Errorf("a path MTU of %v exceeds %v of the port: %w", r.MTU, d.mtu, ib.EINVAL)
	case r.FlowLabel > maxFlowLabel || r.SL > maxSL || r.HopLimit == 0 || r.Lifetime > mad.MaxTimeout:
		return fmt.Errorf("flow label %#x (20 bits), SL %d (0 to %d), hop limit %d, packet lifetime %d (0 to %d): %w",
			r.FlowLabel, r.SL, maxSL, r.HopLimit, r.Lifetime, mad.MaxTimeout, ib.EINVAL)
	}
	return nil
}

// Route returns the route of ResolveRoute or SetRoute; for the ID of a request, the
// peer's route. It returns false if there is none yet.
func (id *ID) Route() (r Route, ok bool) {
	// If the ID or its adapter is gone, there is no route.
	_ = id.runOn("route", func(clock.Instant) error {
		p := id.link.path
		if id.link.conn != nil {
			p = id.link.conn.Path()
		}
		if ok = p.Remote.IsValid(); ok {
			r = Route{FlowLabel: p.FlowLabel, TrafficClass: p.TClass, HopLimit: p.HopLimit, SL: p.SL, MTU: p.MTU, Lifetime: p.Lifetime}
		}
		return nil
	})
	return r, ok
}

// SetRoute is ResolveRoute with a route of the program, which overrides SetTOS and
// SetAckTimeout. EINVAL for a route that is invalid for the adapter.
func (id *ID) SetRoute(r Route) error {
	return id.start("set route", func() error {
		if err := id.link.in(stateAddrResolved); err != nil {
			return err
		}
		if err := r.check(id.at.dev); err != nil {
			return err
		}
		return id.at.do(func(clock.Instant) error { return id.link.setRoute(r) })
	}, EventRouteResolved)
}

// setRoute sets the route once the peer's address is resolved.
func (l *link) setRoute(r Route) error {
	if l.state != stateAddrResolved {
		return l.state.refuses()
	}
	l.path = cm.Path{
		Local: l.at.src.Addr(), Remote: l.at.dst.Addr(), FlowLabel: r.FlowLabel, TClass: r.TrafficClass, HopLimit: r.HopLimit,
		SL: r.SL, MTU: r.MTU, Lifetime: r.Lifetime,
	}
	l.state = stateRouteResolved
	l.inbox.post(&Event{Type: EventRouteResolved})
	return nil
}
