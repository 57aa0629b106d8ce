package rdmacm

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/must"
)

var ownRoute = Route{FlowLabel: 0x12345, TrafficClass: 0x20, HopLimit: 7, SL: 2, MTU: ib.MTU512, Lifetime: 13}

// addressed returns an ID whose address is resolved.
func (h *host) addressed(ps PortSpace, to netip.AddrPort) *ID {
	h.t.Helper()
	id := h.id(ps)
	must.Do(h.t, id.ResolveAddr(netip.AddrPort{}, to))
	h.take(EventAddrResolved)
	return id
}

// TestC11_Route connects over a route that the program sets, and checks it in both queue
// pairs.
func TestC11_Route(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(TCP, 0)
	client := a.id(TCP)
	if r, ok := client.Route(); ok {
		t.Errorf("an idle ID has the route %+v", r)
	}
	must.Fail(t, client.SetRoute(ownRoute), ib.EINVAL, "a route before the address")
	destroy(t, client)
	client = a.addressed(TCP, b.at(port))
	must.Do(t, client.SetTOS(0x11)) // the route overrides it
	must.Do(t, client.SetRoute(ownRoute))
	a.take(EventRouteResolved)
	must.Fail(t, client.SetRoute(ownRoute), ib.EINVAL, "a second route")
	withQP(t, client)
	server := established(t, a, b, client)
	for name, id := range map[string]*ID{"client": client, "server": server} {
		ownRoute := ownRoute
		if id == server {
			ownRoute.HopLimit = cm.DefaultHopLimit // each side chooses its own
		}
		q, err := id.QP().Query()
		must.Do(t, err)
		if v := q.AV; q.PathMTU != ownRoute.MTU || v.FlowLabel != ownRoute.FlowLabel || v.TrafficClass != ownRoute.TrafficClass || v.SL != ownRoute.SL || v.HopLimit != ownRoute.HopLimit {
			t.Errorf("the %s's queue pair has MTU %v and the address vector %+v, want those of %+v", name, q.PathMTU, v, ownRoute)
		}
		r, ok := id.Route()
		if r.Lifetime = ownRoute.Lifetime; r != ownRoute || !ok {
			t.Errorf("the %s's route is %+v, %v", name, r, ok)
		}
	}
	destroy(t, client)
	b.take(EventDisconnected)
	destroy(t, server, l)
	if r, ok := client.Route(); ok {
		t.Errorf("a destroyed ID has the route %+v", r)
	}
}

// TestC9_Route reaches a datagram service over a route that the program sets.
func TestC9_Route(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(UDP, 0)
	client := a.addressed(UDP, b.at(port))
	must.Do(t, client.SetRoute(ownRoute))
	a.take(EventRouteResolved)
	withQP(t, client)
	server := accepted(t, b, client, nil)
	if v := a.take(EventEstablished).UD.AH; v.FlowLabel != ownRoute.FlowLabel || v.TrafficClass != ownRoute.TrafficClass || v.HopLimit != ownRoute.HopLimit || v.SL != ownRoute.SL {
		t.Errorf("the address vector is %+v, want that of %+v", v, ownRoute)
	}
	destroy(t, client, server, l)
}

// TestC11_RouteRefused gives an ID routes that its adapter does not have.
func TestC11_RouteRefused(t *testing.T) {
	a, b := newPair(t)
	id := a.addressed(TCP, b.at(port))
	for what, change := range map[string]func(*Route){
		"no MTU": func(r *Route) { r.MTU = 0 }, "an MTU beyond the port's": func(r *Route) { r.MTU = ib.MTU4096 + 1 },
		"a flow label of 21 bits": func(r *Route) { r.FlowLabel = 1 << 20 }, "SL 16": func(r *Route) { r.SL = 16 },
		"no hop": func(r *Route) { r.HopLimit = 0 }, "a lifetime of 6 bits": func(r *Route) { r.Lifetime = 32 },
	} {
		r := ownRoute
		change(&r)
		must.Fail(t, id.SetRoute(r), ib.EINVAL, what)
	}
	a.quiet("no route")
	must.Do(t, id.ResolveRoute())
	a.take(EventRouteResolved)
	destroy(t, id)
}
