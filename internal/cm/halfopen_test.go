package cm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// checkSilent wants the list to hold the half-open connections that wait for
// their peer, each once, and no other.
func checkSilent(m *Manager) error {
	var before *Conn
	listed := map[*Conn]bool{}
	for c := m.silent.oldest; c != nil; before, c = c, c.newer {
		waits := c.state == RepSent || c.state == MRARepRcvd || c.state == Timewait
		if c.older != before || listed[c] || !c.counted || !waits || m.local[c.localID] != c {
			return fmt.Errorf("connection %#x in state %v is said to be silent", c.localID, c.state)
		}
		listed[c] = true
	}
	if m.silent.newest != before {
		return fmt.Errorf("the list of the silent has another end")
	}
	for id, c := range m.local {
		waits := c.counted && (c.state == RepSent || c.state == MRARepRcvd || c.state == Timewait)
		if waits != listed[c] {
			return fmt.Errorf("connection %#x in state %v: silent is %v", id, c.state, listed[c])
		}
	}
	return nil
}

// crowd is a rig with room for eight half-open connections.
type crowd struct{ *rig }

func newCrowd(t *testing.T) crowd {
	r := newLimitedRig(t, Limits{MaxConns: 100, MaxListeners: 2, MaxHalfOpen: 8})
	r.listen()
	return crowd{r}
}

// ask brings the REQ of a host and returns the connection, nil for none.
func (r crowd) ask(host byte) *Conn {
	r.t.Helper()
	r.conn = nil
	from := netip.AddrFrom4([4]byte{10, 9, 9, host})
	r.receiveFrom(from, mad.AttrREQ, r.reqN(from, 1))
	if err := invariants(r.m); err != nil {
		r.t.Fatal(err)
	}
	return r.conn
}

// accepted is ask, and the consumer accepts.
func (r crowd) accepted(host byte) *Conn {
	r.t.Helper()
	c := r.ask(host)
	if c == nil {
		r.t.Fatalf("host %d is kept out", host)
	}
	r.do(c.SendREP(r.now, r.repParams()))
	return c
}

// TestC6_SilentPeersGiveWay: when as many connections are half-open as may be,
// those whose peers never answered make room, the longest silent first, and
// their consumers hear what they hear when all retries are spent.
func TestC6_SilentPeersGiveWay(t *testing.T) {
	r := newCrowd(t)
	var silent []*Conn
	for host := range byte(8) {
		silent = append(silent, r.accepted(host))
	}
	// One was given up by its consumer, and the peer of one asks for more time.
	silent[0].Destroy(r.now)
	r.receiveFrom(silent[2].to.Remote, mad.AttrMRA, &mad.MRA{LocalCommID: silent[2].remoteID, RemoteCommID: silent[2].localID, Message: mad.WhichREP})
	r.wantState(silent[0], Timewait)
	r.wantState(silent[2], MRARepRcvd)
	for n, want := range []int{1, 2, 3, 4, 5, 6, 7, 0} {
		r.clear()
		c := r.accepted(byte(100 + n))
		if want == 0 {
			r.wantEvents("the destroyed one gives way", REQReceived)
			r.wantSent("the destroyed one gives way", "REP")
		} else {
			r.wantEvents("a silent one gives way", REPError, REQReceived)
			r.wantSent("a silent one gives way", "REJ: timeout", "REP")
		}
		r.wantState(silent[want], Idle)
		r.wantState(c, RepSent)
	}
	if n := r.m.Counters(); n.GivenUp != 8 || n.Refused != 0 || r.m.HalfOpen() != 8 {
		t.Errorf("%d given up, %d refused, %d half-open", n.GivenUp, n.Refused, r.m.HalfOpen())
	}
	r.quiet()
	if err := empty(r.m); err != nil {
		t.Error(err)
	}
}

// TestC6_WhatWaitsForTheConsumerStays: a connection gives way only while the
// peer owes the next message, and none but half-open ones do.
func TestC6_WhatWaitsForTheConsumerStays(t *testing.T) {
	r := newCrowd(t)
	up := r.accepted(50)
	r.receiveFrom(up.to.Remote, mad.AttrRTU, &mad.RTU{LocalCommID: up.remoteID, RemoteCommID: up.localID})
	ended := r.accepted(0)
	r.receiveFrom(ended.to.Remote, mad.AttrDREQ, &mad.DREQ{LocalCommID: ended.remoteID, RemoteCommID: ended.localID, RemoteQPN: rigQPN})
	r.wantState(ended, DReqRcvd)
	for host := byte(1); host < 7; host++ {
		if r.ask(host) == nil {
			t.Fatal("there is room")
		}
	}
	last := r.accepted(7)
	if r.ask(8) == nil || last.State() != Idle {
		t.Error("the silent one did not give way")
	}
	if r.ask(9) != nil || r.m.Counters().Refused != 1 || up.State() != Established || ended.State() != DReqRcvd {
		t.Errorf("%d were refused; the others are in %v and %v", r.m.Counters().Refused, up.State(), ended.State())
	}
	r.do(ended.SendDREP(r.now, nil)) // now it waits for nothing but the end
	if r.ask(9) == nil || ended.State() != Idle {
		t.Errorf("what is over is in %v", ended.State())
	}
}

// TestC6_RoomIsNotTakenFromWhoTookIt: a host with its share of the half-open
// connections gets no more of them, whoever is silent.
func TestC6_RoomIsNotTakenFromWhoTookIt(t *testing.T) {
	r := newCrowd(t)
	var first *Conn
	for i := range 8 {
		r.conn = nil
		r.receive(mad.AttrREQ, r.reqN(r.peer, i))
		if r.conn == nil {
			continue
		}
		r.do(r.conn.SendREP(r.now, r.repParams()))
		if first == nil {
			first = r.conn
		}
	}
	a, b := r.accepted(1), r.accepted(2)
	r.conn = nil
	if r.receive(mad.AttrREQ, r.reqN(r.peer, 20)); r.conn != nil || first.State() != RepSent {
		t.Error("its own silence made room")
	}
	if r.accepted(3); first.State() != Idle || a.State() != RepSent || b.State() != RepSent {
		t.Error("another one was not let in at the cost of the oldest")
	}
}

// TestC6_GivenUpConsumerCloses: the consumer of the one that gives way closes
// the listener that the new one came for, or asks for a connection itself.
func TestC6_GivenUpConsumerCloses(t *testing.T) {
	for _, attr := range []mad.AttrID{mad.AttrREQ, mad.AttrSIDRREQ} {
		r := newCrowd(t)
		var asked *Conn
		for host := range byte(8) {
			r.accepted(host).SetHandler(func(now clock.Instant, c *Conn, e *Event) {
				r.m.listeners[service].Close()
				r.do(c.SendREQ(now, r.reqParams()))
				asked = c
			})
		}
		if attr == mad.AttrREQ {
			r.ask(100)
		} else {
			r.receiveFrom(r.peer, attr, r.sidrReq())
		}
		if asked == nil || asked.State() != ReqSent || r.m.HalfOpen() != 7 || r.m.Counters().Refused != 1 {
			t.Errorf("%v: %d half-open, %d refused", attr, r.m.HalfOpen(), r.m.Counters().Refused)
		}
		if err := invariants(r.m); err != nil {
			t.Error(err)
		}
	}
}

// TestC6_SilentList compares the list with a slice.
func TestC6_SilentList(t *testing.T) {
	const seed = 6
	src := rand.New(rand.NewPCG(seed, seed))
	conns := make([]Conn, 9)
	var l silentList
	var model []*Conn
	for step := range 20_000 {
		c := &conns[src.IntN(len(conns))]
		model = slices.DeleteFunc(model, func(o *Conn) bool { return o == c })
		if src.IntN(2) == 0 {
			l.add(c)
			model = append(model, c)
		} else {
			l.remove(c)
		}
		var got []*Conn
		for o := l.oldest; o != nil; o = o.newer {
			got = append(got, o)
		}
		var back []*Conn
		for o := l.newest; o != nil; o = o.older {
			back = append(back, o)
		}
		slices.Reverse(back)
		if !slices.Equal(got, model) || !slices.Equal(back, model) {
			t.Fatalf("seed %d, step %d: %d forwards, %d backwards, want %d", seed, step, len(got), len(back), len(model))
		}
	}
}

// TestC6_FinalMessages: what ends an exchange goes by Answer, everything else
// by Send.
func TestC6_FinalMessages(t *testing.T) {
	final := map[mad.AttrID]bool{mad.AttrREJ: true, mad.AttrDREP: true, mad.AttrSIDRREP: true}
	for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
		if isFinal(attr) != final[attr] {
			t.Errorf("%v is final: %v", attr, isFinal(attr))
		}
	}
	r := newRig(t)
	answered := 0
	send := r.m.cfg.Send
	r.m.cfg.Answer = func(now clock.Instant, to gsi.Address, d *mad.MAD) error {
		answered++
		return send(now, to, d)
	}
	r.receive(mad.AttrDREQ, &mad.DREQ{LocalCommID: 5, RemoteCommID: 6, RemoteQPN: ib.QPN(7)})
	r.active(Established)
	r.wantSent("an answer and a set-up", "DREP", "REQ", "RTU")
	if answered != 1 {
		t.Errorf("%d went by Answer, want 1", answered)
	}
}
