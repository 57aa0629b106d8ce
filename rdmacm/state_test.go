package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

// stage moves an ID of host a to a state; b is its peer.
type stage struct {
	name string
	make func(a, b *host) *ID
}

// stages are all states of an ID, those of connections by what they wait for.
var stages = []stage{
	{"idle", func(a, b *host) *ID { return a.id(TCP) }},
	{"bound", func(a, b *host) *ID {
		id := a.id(TCP)
		must.Do(a.t, id.BindAddr(a.at(0)))
		return id
	}},
	{"bound to all", func(a, b *host) *ID {
		id := a.id(TCP)
		must.Do(a.t, id.BindAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)))
		return id
	}},
	{"address resolved", func(a, b *host) *ID {
		id := a.id(TCP)
		must.Do(a.t, id.ResolveAddr(netip.AddrPort{}, b.at(port)))
		a.take(EventAddrResolved)
		return id
	}},
	{"route resolved", func(a, b *host) *ID { return withQP(a.t, a.resolved(TCP, b.at(port))) }},
	{"asks", func(a, b *host) *ID {
		id := withQP(a.t, a.resolved(TCP, b.at(port)))
		must.Do(a.t, id.Connect(nil))
		b.take(EventConnectRequest)
		return id
	}},
	{"is answered", func(a, b *host) *ID {
		id := a.resolved(TCP, b.at(port))
		accepted(a.t, b, id, &ConnParam{QPN: 0x77})
		a.take(EventConnectResponse)
		return id
	}},
	{"is asked", func(a, b *host) *ID {
		id, _ := askedBy(a, b)
		return id
	}},
	{"has accepted", func(a, b *host) *ID {
		id, _ := askedBy(a, b)
		must.Do(a.t, id.Accept(nil))
		b.take(EventConnectResponse)
		return id
	}},
	{"established", func(a, b *host) *ID {
		id, _ := connectedBy(a, b)
		return id
	}},
	{"disconnected by the peer", func(a, b *host) *ID {
		id, client := connectedBy(a, b)
		must.Do(a.t, client.Disconnect())
		a.take(EventDisconnected)
		return id
	}},
	{"rejected", func(a, b *host) *ID {
		id := withQP(a.t, a.resolved(TCP, b.at(port+1)))
		must.Do(a.t, id.Connect(nil))
		a.take(EventRejected)
		return id
	}},
	{"listens", func(a, b *host) *ID {
		id := a.id(TCP)
		must.Do(a.t, id.BindAddr(a.at(port+1)))
		must.Do(a.t, id.Listen(0))
		return id
	}},
	{"destroyed", func(a, b *host) *ID {
		id := a.id(TCP)
		must.Do(a.t, id.Destroy())
		return id
	}},
}

// askedBy returns the ID of a request that b's client sends to a.
func askedBy(a, b *host) (server, client *ID) {
	client = b.resolved(TCP, a.at(port))
	must.Do(a.t, client.Connect(&ConnParam{QPN: 0x77}))
	return withQP(a.t, a.take(EventConnectRequest).ID), client
}

// connectedBy returns an ID of a that b's client has connected to.
func connectedBy(a, b *host) (server, client *ID) {
	server, client = askedBy(a, b)
	must.Do(a.t, server.Accept(nil))
	b.take(EventConnectResponse)
	must.Do(a.t, client.Establish())
	a.take(EventEstablished)
	return server, client
}

// calls are all calls that a program can make on an ID.
var calls = []struct {
	name string
	do   func(id *ID, peer netip.AddrPort) error
}{
	{"SetQPType", func(id *ID, _ netip.AddrPort) error { return id.SetQPType(ib.RC) }},
	{"SetTOS", func(id *ID, _ netip.AddrPort) error { return id.SetTOS(8) }},
	{"SetReuseAddr", func(id *ID, _ netip.AddrPort) error { return id.SetReuseAddr(true) }},
	{"SetAFOnly", func(id *ID, _ netip.AddrPort) error { return id.SetAFOnly(true) }},
	{"SetAckTimeout", func(id *ID, _ netip.AddrPort) error { return id.SetAckTimeout(14) }},
	{"SetResponseTimeout", func(id *ID, _ netip.AddrPort) error { return id.SetResponseTimeout(14, 3) }},
	{"BindAddr", func(id *ID, _ netip.AddrPort) error { return id.BindAddr(netip.MustParseAddrPort("10.0.0.1:0")) }},
	{"ResolveAddr", func(id *ID, p netip.AddrPort) error { return id.ResolveAddr(netip.AddrPort{}, p) }},
	{"ResolveRoute", func(id *ID, _ netip.AddrPort) error { return id.ResolveRoute() }},
	{"SetRoute", func(id *ID, _ netip.AddrPort) error { return id.SetRoute(ownRoute) }},
	{"Listen", func(id *ID, _ netip.AddrPort) error { return id.Listen(0) }},
	{"GetRequest", func(id *ID, _ netip.AddrPort) error {
		_, err := id.GetRequest(context.Background())
		return err
	}},
	{"PD", func(id *ID, _ netip.AddrPort) error {
		_, err := id.PD()
		return err
	}},
	{"CreateQP", func(id *ID, _ netip.AddrPort) error { return id.CreateQP(nil, small()) }},
	{"DestroyQP", func(id *ID, _ netip.AddrPort) error { return id.DestroyQP() }},
	{"QPAttr(INIT)", func(id *ID, _ netip.AddrPort) error { return attrs(id, ib.INIT) }},
	{"QPAttr(RTR)", func(id *ID, _ netip.AddrPort) error { return attrs(id, ib.RTR) }},
	{"QPAttr(RTS)", func(id *ID, _ netip.AddrPort) error { return attrs(id, ib.RTS) }},
	{"QPAttr(SQD)", func(id *ID, _ netip.AddrPort) error { return attrs(id, ib.SQD) }},
	{"Connect", func(id *ID, _ netip.AddrPort) error { return id.Connect(nil) }},
	{"Accept", func(id *ID, _ netip.AddrPort) error { return id.Accept(nil) }},
	{"Reject", func(id *ID, _ netip.AddrPort) error { return id.Reject(nil) }},
	{"Establish", func(id *ID, _ netip.AddrPort) error { return id.Establish() }},
	{"Notify(COMM_EST)", func(id *ID, _ netip.AddrPort) error { return id.Notify(ib.EventCommEst) }},
	{"Notify(PATH_MIG)", func(id *ID, _ netip.AddrPort) error { return id.Notify(ib.EventPathMig) }},
	{"Disconnect", func(id *ID, _ netip.AddrPort) error { return id.Disconnect() }},
	{"JoinMulticast", func(id *ID, _ netip.AddrPort) error {
		return id.JoinMulticast(netip.MustParseAddrPort("239.0.0.1:0"), nil)
	}},
	{"LeaveMulticast", func(id *ID, _ netip.AddrPort) error {
		return id.LeaveMulticast(netip.MustParseAddrPort("239.0.0.1:0"))
	}},
	{"Migrate", func(id *ID, _ netip.AddrPort) error { return id.Migrate(id.m.NewEventChannel()) }},
	{"Destroy", func(id *ID, _ netip.AddrPort) error { return id.Destroy() }},
}

func attrs(id *ID, to ib.QPState) error {
	_, _, err := id.QPAttr(to)
	return err
}

// TestC11_States makes every call in every state of an ID: the results are in a golden
// file, and no call panics, hangs or leaves objects.
func TestC11_States(t *testing.T) {
	var out strings.Builder
	fmt.Fprintf(&out, "# What each call returns, by the states of an ID. Written by go test -rewrite.\n")
	for _, c := range calls {
		by := map[string][]string{}
		for _, s := range stages {
			t.Run(c.name+"/"+s.name, func(t *testing.T) {
				a, b := newPair(t)
				a.listener(TCP, 0)
				b.listener(TCP, 0)
				got := answer(c.do(s.make(a, b), b.at(port)))
				by[got] = append(by[got], s.name)
				must.Do(t, a.m.Close())
				must.Do(t, b.m.Close())
			})
		}
		fmt.Fprintf(&out, "\n%s\n", c.name)
		for _, got := range slices.Sorted(maps.Keys(by)) {
			fmt.Fprintf(&out, "  %-14s%s\n", got, strings.Join(by[got], ", "))
		}
	}
	golden.Check(t, "testdata/states.golden", out.String())
}

// answer returns the name of an error number.
func answer(err error) string {
	if err == nil {
		return "ok"
	}
	for name, errno := range map[string]syscall.Errno{
		"EINVAL": ib.EINVAL, "EISCONN": ib.EISCONN, "ENOTCONN": ib.ENOTCONN, "ENODEV": ib.ENODEV, "EBUSY": ib.EBUSY,
		"ENOMEM": ib.ENOMEM, "EADDRNOTAVAIL": ib.EADDRNOTAVAIL, "EADDRINUSE": ib.EADDRINUSE, "EOPNOTSUPP": ib.EOPNOTSUPP,
	} {
		if errors.Is(err, errno) {
			return name
		}
	}
	return err.Error()
}
