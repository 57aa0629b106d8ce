package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// failingCall is a call that TestCallsFail makes fail.
type failingCall struct {
	call  string
	errno ib.Errno
	id    func(t *testing.T, a, b *host) *ID // prepares the ID of host a
	do    func(a, b *host, id *ID) error
}

// failingCalls returns the calls.
func failingCalls() []failingCall {
	group := netip.MustParseAddrPort("239.1.2.3:0")
	connected := func(t *testing.T, a, b *host) *ID { return connect2(t, b, a).server }
	requested := func(t *testing.T, a, b *host) *ID {
		a.listener(TCP, 0)
		must.Do(t, withQP(t, b.resolved(TCP, a.at(port))).Connect(nil))
		return withQP(t, a.take(EventConnectRequest).ID)
	}
	fresh := func(_ *testing.T, a, _ *host) *ID { return a.id(TCP) }
	bound := func(t *testing.T, a, _ *host) *ID {
		id := a.id(TCP)
		must.Do(t, id.BindAddr(a.at(port)))
		return id
	}
	datagrams := func(t *testing.T, a, _ *host) *ID {
		id := a.id(UDP)
		must.Do(t, id.BindAddr(a.at(port)))
		return withQP(t, id)
	}
	return []failingCall{
		{"CMCreateID", ib.ENOMEM, fresh, func(a, _ *host, _ *ID) error { _, err := a.m.CreateID(a.ch, TCP); return err }},
		{"CMMigrate", ib.EINVAL, fresh, func(a, _ *host, id *ID) error { return id.Migrate(a.m.NewEventChannel()) }},
		{"CMBindAddr", ib.EADDRINUSE, fresh, func(a, _ *host, id *ID) error { return id.BindAddr(a.at(port)) }},
		{"CMResolveAddr", ib.ENODEV, fresh, func(_, b *host, id *ID) error { return id.ResolveAddr(netip.AddrPort{}, b.at(port)) }},
		{"CMListen", ib.EADDRINUSE, bound, func(_, _ *host, id *ID) error { return id.Listen(1) }},
		{"CMResolveRoute", ib.EINVAL, func(t *testing.T, a, b *host) *ID {
			id := a.id(TCP)
			must.Do(t, id.ResolveAddr(netip.AddrPort{}, b.at(port)))
			a.take(EventAddrResolved)
			return id
		}, func(_, _ *host, id *ID) error { return id.ResolveRoute() }},
		{"CMConnect", ib.ENOMEM, func(t *testing.T, a, b *host) *ID {
			b.listener(TCP, 0)
			return withQP(t, a.resolved(TCP, b.at(port)))
		}, func(_, _ *host, id *ID) error { return id.Connect(nil) }},
		{"CMAccept", ib.ENOMEM, requested, func(_, _ *host, id *ID) error { return id.Accept(nil) }},
		{"CMReject", ib.EINVAL, requested, func(_, _ *host, id *ID) error { return id.Reject(nil) }},
		{"CMEstablish", ib.EINVAL, func(t *testing.T, a, b *host) *ID {
			b.listener(TCP, 0)
			client := a.resolved(TCP, b.at(port))
			accepted(t, b, client, &ConnParam{QPN: 0x77})
			a.take(EventConnectResponse)
			return client
		}, func(_, _ *host, id *ID) error { return id.Establish() }},
		{"CMDisconnect", ib.EINVAL, connected, func(_, _ *host, id *ID) error { return id.Disconnect() }},
		{"CMJoinMulticast", ib.ENOMEM, datagrams, func(_, _ *host, id *ID) error { return id.JoinMulticast(group, nil) }},
		{"CMLeaveMulticast", ib.EINVAL, func(t *testing.T, a, b *host) *ID {
			id := datagrams(t, a, b)
			must.Do(t, id.JoinMulticast(group, nil))
			a.take(EventMulticastJoin)
			return id
		}, func(_, _ *host, id *ID) error { return id.LeaveMulticast(group) }},
	}
}

// TestCallsFail makes each call fail once, as a rule asks, and then succeed.
func TestCallsFail(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range failingCalls() {
		tested[c.call] = true
		t.Run(c.call, func(t *testing.T) {
			before, nth := 0, 1
			if c.call == "CMCreateID" {
				nth = 2 // after that of fresh
			}
			for _, rule := range []string{"", fmt.Sprintf("fail op=%s errno=%s nth=%d", c.call, nameOf(c.errno), nth)} {
				a, b := newFaultyPair(t, rule)
				id := c.id(t, a, b)
				if rule == "" {
					before = a.conns()
				} else if err := c.do(a, b, id); !errors.Is(err, c.errno) || a.acted() != 1 || a.conns() != before {
					t.Fatalf("the call returns %v, the rule acted %d times, and there are %d connections, want %d", err, a.acted(), a.conns(), before)
				}
				must.Do(t, c.do(a, b, id))
			}
		})
	}
	for _, c := range fault.Calls() {
		if strings.HasPrefix(c, "CM") && !tested[c] {
			t.Errorf("%s is not tested", c)
		}
	}
}

// nameOf returns the name of an error of TestCallsFail.
func nameOf(e ib.Errno) string {
	return map[ib.Errno]string{ib.ENOMEM: "ENOMEM", ib.EINVAL: "EINVAL", ib.ENODEV: "ENODEV", ib.EADDRINUSE: "EADDRINUSE"}[e]
}

// TestRequestsAreRejected rejects the second of three requests, with a reason, before the program that listens gets it.
func TestRequestsAreRejected(t *testing.T) {
	b, a := newFaultyPair(t, "reject INVALID_MTU nth=2")
	b.listener(TCP, 0)
	connect := func() *ID {
		id := withQP(t, a.resolved(TCP, b.at(port)))
		must.Do(t, id.Connect(nil))
		return id
	}
	connect()
	b.take(EventConnectRequest)
	before := b.conns()
	connect()
	if e := a.take(EventRejected); e.Status != int(mad.RejInvalidMTU) {
		t.Errorf("the status is %d (%v)", e.Status, e.Err)
	}
	if n := b.conns(); n != before || b.acted() != 1 {
		t.Errorf("%d connections, want %d; the rule acted %d times", n, before, b.acted())
	}
	b.quiet("after a rejection")
	connect()
	b.take(EventConnectRequest)
}
