package rdmacm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// member returns an ID with a QP that has joined a group.
func (h *host) member(group netip.AddrPort) (*ID, UDParam) {
	h.t.Helper()
	id := h.id(UDP)
	must.Do(h.t, id.ResolveAddr(netip.AddrPort{}, group))
	h.take(EventAddrResolved)
	withQP(h.t, id)
	must.Do(h.t, id.JoinMulticast(group, "context"))
	e := h.take(EventMulticastJoin)
	if e.Context != "context" || e.UD.QPN != ib.QPNMulticast || e.UD.QKey != DefaultQKey || e.UD.AH.DGID.Addr() != group.Addr() || e.Status != 0 {
		h.t.Errorf("MULTICAST_JOIN says %+v", e)
	}
	return id, e.UD
}

// TestC11_Multicast sends to a group over IPv4 and over IPv6.
func TestC11_Multicast(t *testing.T) {
	for _, group := range []string{"239.77.0.1:0", "[ff15::77]:0"} {
		t.Run(group, func(t *testing.T) {
			a, b := newPair(t)
			g := netip.MustParseAddrPort(group)
			sender, way := a.member(g)
			receiver, _ := b.member(g)
			datagram(t, sender, receiver, way, "to the group")
			must.Do(t, receiver.LeaveMulticast(g))
			must.Fail(t, receiver.LeaveMulticast(g), ib.EADDRNOTAVAIL, "leave a group that is not joined")
			destroy(t, sender, receiver)
		})
	}
}

// TestC11_MulticastMembers sends a datagram of the path MTU from each of three adapters to a
// group of two QPs at each: every QP gets each, also the one that sent it.
func TestC11_MulticastMembers(t *testing.T) {
	for _, group := range []string{"239.77.0.1:0", "[ff15::77]:0"} {
		t.Run(group, func(t *testing.T) {
			a, b := newPair(t)
			c := newHost(t, verbs.Config{Network: a.net, Addr: "10.0.0.3,fd00::3"})
			g := netip.MustParseAddrPort(group)
			type member struct {
				*ID
				buffer *verbs.MR
				way    UDParam
			}
			var members []member
			for _, h := range []*host{a, a, b, b, c, c} {
				id, way := h.member(g)
				pd, err := id.PD()
				must.Do(t, err)
				mr, err := pd.RegMR(make([]byte, 40+4096), ib.AccessLocalWrite)
				must.Do(t, err)
				members = append(members, member{id, mr, way})
			}
			for i, sender := range members {
				for _, m := range members {
					must.Do(t, m.QP().PostRecv(verbs.RecvWR{SGList: []verbs.SGE{m.buffer.SGE(0, 40+4096)}}))
				}
				pd, err := sender.PD()
				must.Do(t, err)
				text, err := pd.RegMR(bytes.Repeat([]byte{byte(i + 1)}, 4096), 0)
				must.Do(t, err)
				ah, err := pd.CreateAH(sender.way.AH)
				must.Do(t, err)
				must.Do(t, sender.QP().PostSend(verbs.SendWR{
					Opcode: ib.WRSend, SGList: []verbs.SGE{text.SGE(0, 4096)}, AH: ah, RemoteQPN: sender.way.QPN, RemoteQKey: sender.way.QKey,
				}))
				wc, err := sender.GetSendComp(soon(t))
				must.Do(t, err)
				if wc.Status != ib.WCSuccess {
					t.Fatalf("send: %v", wc.Status)
				}
				for k, m := range members {
					wc, err := m.GetRecvComp(soon(t))
					must.Do(t, err)
					if wc.Status != ib.WCSuccess || wc.ByteLen != 40+4096 || !bytes.Equal(m.buffer.Bytes()[40:], text.Bytes()) {
						t.Errorf("QP %d gets %v, %d bytes, of QP %d", k, wc.Status, wc.ByteLen, i)
					}
				}
				must.Do(t, errors.Join(ah.Destroy(), text.Dereg()))
			}
			for _, m := range members {
				must.Do(t, m.Destroy())
				must.Do(t, m.buffer.Dereg())
			}
		})
	}
}

// TestC11_MulticastTwice joins a group twice: each join needs a leave.
func TestC11_MulticastTwice(t *testing.T) {
	a, b := newPair(t)
	g := netip.MustParseAddrPort("239.77.0.1:0")
	sender, way := a.member(g)
	receiver, _ := b.member(g)
	must.Do(t, receiver.JoinMulticast(g, 2))
	b.take(EventMulticastJoin)
	must.Do(t, receiver.LeaveMulticast(g))
	datagram(t, sender, receiver, way, "still in the group")
	must.Do(t, receiver.JoinMulticast(g, 3)) // its event is not taken
	must.Do(t, receiver.LeaveMulticast(g))
	b.quiet("after leaving")
	must.Do(t, receiver.LeaveMulticast(g))
	must.Do(t, receiver.JoinMulticast(g, 4))
	e, err := b.ch.Get(soon(t))
	must.Do(t, err)
	done := make(chan error, 1)
	go func() { done <- receiver.LeaveMulticast(g) }()
	e.Ack()
	must.Do(t, <-done)
	destroy(t, sender, receiver)
}

// TestC11_MulticastErrors checks that invalid joins are refused.
func TestC11_MulticastErrors(t *testing.T) {
	a, _ := newPair(t)
	g := netip.MustParseAddrPort("239.77.0.1:0")
	tcp := a.id(TCP)
	must.Fail(t, tcp.JoinMulticast(g, nil), ib.EINVAL, "join by an ID of TCP")
	id := a.id(UDP)
	must.Fail(t, id.JoinMulticast(g, nil), ib.EINVAL, "join without an adapter")
	must.Do(t, id.BindAddr(a.at(0)))
	must.Fail(t, id.JoinMulticast(netip.MustParseAddrPort("[ff15::77]:0"), nil), ib.EINVAL, "join a group of another family")
	must.Fail(t, id.JoinMulticast(netip.MustParseAddrPort("0.0.0.0:0"), nil), ib.EINVAL, "join no group")
	withQP(t, id)
	must.Do(t, id.JoinMulticast(netip.MustParseAddrPort("10.0.0.2:0"), "x"))
	if e := a.take(EventMulticastError); e.Status != -1 || !errors.Is(e.Err, ib.EINVAL) || e.Context != "x" {
		t.Errorf("MULTICAST_ERROR says %+v", e)
	}
	must.Fail(t, id.LeaveMulticast(netip.MustParseAddrPort("10.0.0.2:0")), ib.EADDRNOTAVAIL, "leave what was not joined")
	for range maxJoins {
		must.Do(t, id.JoinMulticast(g, nil))
		a.take(EventMulticastJoin)
	}
	must.Fail(t, id.JoinMulticast(g, nil), ib.ENOMEM, "one join too many")
	must.Do(t, id.DestroyQP())
	must.Do(t, id.LeaveMulticast(g))
	destroy(t, id, tcp)
	route := a.resolved(UDP, g)
	must.Fail(t, route.JoinMulticast(g, nil), ib.EINVAL, "join after the route is resolved")
	must.Fail(t, route.Connect(nil), ib.EINVAL, "connect to a group")
	destroy(t, route)
}

// TestC11_MulticastOnHost sends to a group over the host's network.
func TestC11_MulticastOnHost(t *testing.T) {
	a, b := newUDPPair(t)
	g := netip.MustParseAddrPort("239.77.0.1:0")
	member := func(h *host) (*ID, *Event) {
		id := h.id(UDP)
		must.Do(t, id.BindAddr(h.at(0)))
		withQP(t, id)
		must.Do(t, id.JoinMulticast(g, nil))
		e, err := h.ch.Get(soon(t))
		must.Do(t, err)
		e.Ack()
		return id, e
	}
	sender, e := member(a)
	if errors.Is(e.Err, ib.EOPNOTSUPP) {
		// Only on Linux does the port support multicast.
		t.Skip(e.Err)
	}
	must.Do(t, e.Err)
	receiver, _ := member(b)
	datagram(t, sender, receiver, e.UD, "to the group")
	destroy(t, sender, receiver)
}

// TestC11_MulticastOwnQP joins without a QP of CreateQP: the program attaches its own QP
// to the group in the event.
func TestC11_MulticastOwnQP(t *testing.T) {
	a, _ := newPair(t)
	id := a.id(UDP)
	must.Do(t, id.BindAddr(a.at(0)))
	g := netip.MustParseAddrPort("239.77.0.1:0")
	must.Do(t, id.JoinMulticast(g, nil))
	way := a.take(EventMulticastJoin).UD
	pd, err := id.PD()
	must.Do(t, err)
	cq, err := id.Device().CreateCQ(4, nil)
	must.Do(t, err)
	attr := small()
	attr.Type, attr.SendCQ, attr.RecvCQ = ib.UD, cq, cq
	q, err := pd.CreateQP(attr)
	must.Do(t, err)
	must.Do(t, q.ModifyToRTS(verbs.QPAttr{Port: 1, QKey: way.QKey}))
	must.Do(t, q.AttachMcast(way.AH.DGID, 0))
	must.Do(t, id.LeaveMulticast(g))
	must.Do(t, errors.Join(q.Destroy(), cq.Destroy()))
	destroy(t, id)
}
