package cm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// checkWaiters checks that the lists hold exactly the connections that wait for
// their peer, each once.
func checkWaiters(m *Manager) error {
	if err := checkGroups(m); err != nil {
		return err
	}
	listed := map[*Conn]bool{}
	lists := []*evictionList{&m.evictTimewait}
	for _, g := range m.silent {
		lists = append(lists, &g.list)
	}
	for _, l := range lists {
		var before *Conn
		for c := l.oldest; c != nil; before, c = c, c.newer {
			if c.older != before || listed[c] || c.halfOpen != (c.group != nil) || c.group != nil && l != &c.group.list || !waits(c) || m.local[c.localID] != c {
				return fmt.Errorf("connection %#x in state %v, counted as half-open is %v, is listed", c.localID, c.state, c.halfOpen)
			}
			listed[c] = true
		}
		if l.newest != before {
			return fmt.Errorf("a list of those that wait has another end")
		}
	}
	for id, c := range m.local {
		if waits(c) != listed[c] {
			return fmt.Errorf("connection %#x in state %v: listed is %v", id, c.state, listed[c])
		}
	}
	return nil
}

// checkGroups checks the groups' counts and index, and that the largest comes first.
func checkGroups(m *Manager) error {
	of := map[*Listener]int{}
	groups, most := map[*Listener]int{}, map[*Listener]int{}
	largest := 0
	for k, g := range m.silent {
		n := 0
		for c := g.list.oldest; c != nil; c = c.newer {
			n++
			if c.newer != nil && c.newer.silentSince < c.silentSince || (silentKey{c.listener, c.to.Remote}) != k {
				return fmt.Errorf("connection %#x is in the group of %v", c.localID, k.addr)
			}
		}
		if n != g.count || n == 0 || !m.largest.Has(g) || !k.l.groups.Has(g) {
			return fmt.Errorf("the group of %v has %d connections, counted are %d", k.addr, n, g.count)
		}
		of[k.l] += n
		groups[k.l]++
		most[k.l] = max(most[k.l], n)
		largest = max(largest, n)
	}
	for l, n := range of {
		if l.silent != n || l.groups.Len() != groups[l] || l.groups.All()[0].count != most[l] {
			return fmt.Errorf("listener %v has %d silent peers, counted are %d", l.service, n, l.silent)
		}
	}
	for _, l := range m.listeners {
		if of[l] == 0 && (l.silent != 0 || l.groups.Len() != 0) {
			return fmt.Errorf("listener %v counts %d silent peers", l.service, l.silent)
		}
	}
	if m.largest.Len() != len(m.silent) || largest > 0 && m.largest.All()[0].count != largest {
		return fmt.Errorf("the largest group is not the first of %d", m.largest.Len())
	}
	return nil
}

func waits(c *Conn) bool { return c.state == RepSent || c.state == MRARepRcvd || c.state == Timewait }

// crowd is a rig with room for eight half-open connections.
type crowd struct{ *rig }

func newCrowd(t *testing.T) crowd {
	r := newLimitedRig(t, Limits{MaxConns: 100, MaxListeners: 2, MaxHalfOpen: 8})
	r.listen()
	return crowd{r}
}

// ask delivers the REQ of a host and returns the connection, nil for none.
func (r crowd) ask(host byte) *Conn {
	r.t.Helper()
	r.conn = nil
	from := netip.AddrFrom4([4]byte{10, 9, 9, host})
	r.receiveFrom(from, mad.AttrREQ, r.reqN(from, 1))
	must.Do(r.t, invariants(r.m))
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

// TestC6_SilentPeersGiveWay: at the limit of half-open connections, those whose
// peers never answered make room, the longest silent first, and their consumers
// get the same event as when all retries are used up.
func TestC6_SilentPeersGiveWay(t *testing.T) {
	r := newCrowd(t)
	var silent []*Conn
	for host := range byte(8) {
		silent = append(silent, r.accepted(host))
	}
	// One was destroyed by its consumer, and the peer of another asks for more
	// time.
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
	must.Do(t, empty(r.m))
}

// TestC6_WhatWaitsForTheConsumerStays: a connection makes room only while its
// peer must send the next message, and only if it is half-open.
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
// connections gets no more, even if other hosts' connections are silent.
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

// TestC6_GivenUpConsumerCloses: the consumer of the evicted connection closes
// the listener of the new request, or begins a connection itself.
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
		must.Do(t, invariants(r.m))
	}
}

// TestC6_TimewaitGivesWay: at the limit of connections, those in TIMEWAIT make
// room for requests of peers and of the consumer, the oldest first, before
// half-open ones do.
func TestC6_TimewaitGivesWay(t *testing.T) {
	r := newLimitedRig(t, Limits{MaxConns: 4, MaxListeners: 1, MaxHalfOpen: 4})
	r.listen()
	var over []*Conn
	for i := range 2 {
		c := r.m.NewConn(r.onEvent)
		r.do(c.SendREQ(r.now, r.reqParams()))
		p := r.rep(c)
		p.LocalCommID, p.LocalQPN = uint32(i+1), ib.QPN(i+2)
		r.receive(mad.AttrREP, p)
		r.do(c.SendRTU(r.now, nil))
		r.receive(mad.AttrREJ, &mad.REJ{LocalCommID: p.LocalCommID, RemoteCommID: c.localID, Message: mad.WhichOther})
		r.wantState(c, Timewait)
		over = append(over, c)
	}
	half := crowd{r}.accepted(1)
	crowd{r}.accepted(2)
	for n, ask := range []func(){
		func() { crowd{r}.accepted(3) },
		func() { r.do(r.m.NewConn(r.onEvent).SendREQ(r.now, r.reqParams())) },
		func() {
			r.do(r.m.NewConn(r.onEvent).SendSIDRREQ(r.now, &SIDRREQParams{Service: service, Path: r.path()}))
		},
	} {
		r.clear()
		first := append(over, half)[n]
		if ask(); first.State() != Idle || r.m.Conns() != 4 {
			t.Errorf("request %d: the one to give way is in %v, there are %d", n, first.State(), r.m.Conns())
		}
		if want := []EventType{TimewaitExit, TimewaitExit, REPError}[n]; len(r.events) == 0 || r.events[0] != want {
			t.Errorf("request %d: heard %v, want %v first", n, r.events, want)
		}
		must.Do(t, invariants(r.m))
	}
}

// TestC6_OneGivesWay: for one request one connection is evicted, whatever its
// consumer does in the handler of that event.
func TestC6_OneGivesWay(t *testing.T) {
	r := newLimitedRig(t, Limits{MaxConns: 4, MaxListeners: 1, MaxHalfOpen: 4})
	r.listen()
	var refused []error
	greedy := func(now clock.Instant, _ *Conn, _ *Event) {
		for range 2 { // one takes the free place
			if err := r.m.NewConn(nil).SendREQ(now, r.reqParams()); err != nil {
				refused = append(refused, err)
			}
		}
	}
	for host := range byte(4) {
		r.conn = nil
		crowd{r}.accepted(host).SetHandler(greedy)
	}
	err := r.m.NewConn(nil).SendREQ(r.now, r.reqParams())
	if n := r.m.Counters().GivenUp; n != 1 || len(refused) != 1 || !errors.Is(refused[0], ib.ENOMEM) || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("%d gave way; refused are %v, and then %v", n, refused, err)
	}
	must.Do(t, invariants(r.m))
}

// TestC6_GivenUpConsumerMeddles: the consumer of the evicted connection begins
// a new one at once, or ends the connection for which room is made.
func TestC6_GivenUpConsumerMeddles(t *testing.T) {
	for _, ends := range []bool{false, true} {
		r := newLimitedRig(t, Limits{MaxConns: 2, MaxListeners: 1, MaxHalfOpen: 4})
		r.listen()
		next := r.m.NewConn(r.onEvent)
		var again error
		for host := range byte(2) {
			crowd{r}.accepted(host).SetHandler(func(now clock.Instant, c *Conn, e *Event) {
				if ends {
					next.Destroy(now)
				} else {
					again = c.SendREQ(now, r.reqParams())
				}
			})
		}
		err := next.SendREQ(r.now, r.reqParams())
		if want := map[bool]error{false: ib.ENOMEM, true: ib.EINVAL}[ends]; !errors.Is(err, want) || again != nil {
			t.Errorf("ends %v: error %v, want %v; beginning anew: %v", ends, err, want, again)
		}
		if want := map[bool]int{false: 2, true: 1}[ends]; r.m.Conns() != want || r.m.HalfOpen() != 1 || next.State() != Idle {
			t.Errorf("ends %v: %d connections, %d half-open, the new one in %v", ends, r.m.Conns(), r.m.HalfOpen(), next.State())
		}
		must.Do(t, invariants(r.m))
	}
}

// TestC6_Waiters compares the list with a slice.
func TestC6_Waiters(t *testing.T) {
	const seed = 6
	src := rand.New(rand.NewPCG(seed, seed))
	conns := make([]Conn, 9)
	var l evictionList
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

// TestC6_Replies: messages that a peer can provoke without limit are sent by
// Answer, those that set up or tear down a connection by Send.
func TestC6_Replies(t *testing.T) {
	r := newRig(t)
	r.listen()
	replies := 0
	send := r.m.cfg.Send
	r.m.cfg.Answer = func(now clock.Instant, to gsi.Address, d *mad.MAD) error {
		replies++
		return send(now, to, d)
	}
	want := func(n int, why string, sent ...string) {
		t.Helper()
		r.wantSent(why, sent...)
		if replies != n {
			t.Errorf("%s: %d of them by Answer, want %d", why, replies, n)
		}
		r.clear()
		replies = 0
	}
	c := r.active(Established)
	r.end(c, DReqSent)
	want(0, "the active side", "REQ", "RTU", "DREQ")
	c.Destroy(r.now)
	r.quiet()
	r.clear()
	c = r.passive(MRAReqSent)
	tell(r, c, MsgREQ)
	want(1, "the passive side, asked twice", "MRA")
	r.do(c.SendREP(r.now, r.repParams()))
	tell(r, c, MsgRTU)
	tell(r, c, MsgLAP)
	r.do(c.SendAPR(r.now, &APRParams{}))
	want(1, "it goes on", "REP", "APR")
	tell(r, c, MsgDREQ)
	r.do(c.SendDREP(r.now, nil))
	tell(r, c, MsgDREQ)
	want(1, "its end, asked for twice", "DREP", "DREP")
	r.quiet()
	r.clear()
	c = r.passive(SIDRReqRcvd)
	r.do(c.SendSIDRREP(r.now, &SIDRREPParams{}))
	r.passive(ReqRcvd).Destroy(r.now)
	nobody := &Conn{localID: 5}
	tell(r, nobody, MsgREP)
	tell(r, nobody, MsgDREQ)
	r.m.listeners[service].Close()
	tell(r, nobody, MsgREQ)
	tell(r, nobody, MsgSIDRREQ)
	want(6, "answers", "SIDR_REP: valid", "REJ: consumer reject", "REJ: invalid communication id", "DREP",
		"REJ: invalid service id", "SIDR_REP: unsupported service id")
}

// besieged is a manager with a listener that accepts everything, and measures how long an
// honest peer takes to connect while a stranger sends REQs.
type besieged struct {
	*network
	a, b  *node
	l     *Listener
	asked int
}

// newBesieged returns a network on which the consumer of b accepts silent peers, at most 256.
func newBesieged(t *testing.T) *besieged {
	n, a, b := newNetwork(t)
	l, err := b.m.Listen(service, b.polite)
	n.do(err)
	l.MaxSilent = 256
	s := &besieged{network: n, a: a, b: b, l: l}
	n.fate = func(p *packet) []time.Duration {
		if p.kind() == mad.AttrREP && decode(&mad.REP{}, &p.mad).RemoteCommID <= uint32(s.asked) {
			return nil // the stranger's: a would reject it
		}
		return []time.Duration{latency}
	}
	return s
}

// ask delivers a REQ of a host that never answers, with the longest times and the
// most repetitions.
func (s *besieged) ask(from netip.Addr) {
	s.t.Helper()
	s.asked++
	q := (&rig{us: s.b.addr, peer: from}).req()
	q.LocalCommID, q.LocalQPN, q.LocalCAGUID = uint32(s.asked), ib.QPN(s.asked+2), 0xbad
	q.LocalResponseTimeout, q.MaxCMRetries = 31, 15
	s.b.m.Receive(s.now, &gsi.Received{MAD: build(mad.AttrREQ, 1, q), From: gsi.Address{Local: s.b.addr, Remote: from, QPN: 1, PKey: ib.PKeyDefault}})
}

// connected lets an honest peer connect, which must succeed at once, in one exchange.
func (s *besieged) connected(why string) {
	s.t.Helper()
	start := s.now
	c := s.a.ask(s.b)
	for s.now < start.Add(3*latency) {
		s.now = s.now.Add(latency)
		flush(s.network)
	}
	if c.State() != Established {
		s.t.Errorf("%s: %v after the honest peer asked it is in %v", why, s.now.Sub(start), c.State())
	}
	must.Do(s.t, invariants(s.b.m))
}

// TestC6_SilentPeersKeepNobodyOut: 1,473 REQs of one address are accepted by a program that
// accepts everything, and its REPs get no answer. The program holds 256 of them, and an
// honest peer is connected at once, whether it has another address or, a tenth of a second
// later, the same, and also while more come.
func TestC6_SilentPeersKeepNobodyOut(t *testing.T) {
	const reqs, wait = 1473, 100 * time.Millisecond
	hog := netip.MustParseAddr("10.9.9.9")
	for what, from := range map[string]netip.Addr{"another address": hog, "the same address": {}} {
		s := newBesieged(t)
		if !from.IsValid() {
			from = s.a.addr
		}
		for range reqs {
			s.ask(from)
		}
		if s.l.silent != 256 || s.b.m.HalfOpen() != 256 {
			t.Errorf("%s: %d are accepted and silent, %d half-open, want 256", what, s.l.silent, s.b.m.HalfOpen())
		}
		if from == s.a.addr {
			c := s.a.ask(s.b)
			s.now = s.now.Add(wait - 1)
			flush(s.network)
			if s.b.m.Counters().GivenUp != 0 || c.State() != ReqSent {
				t.Errorf("%s: within %v an honest peer may be among the silent", what, wait)
			}
			c.Destroy(s.now)
			flush(s.network)
			s.now = s.now.Add(1)
		}
		s.connected(what)
		for range 10 { // a thousand REQs a second
			for range 10 {
				s.ask(from)
				s.now = s.now.Add(latency)
				flush(s.network)
			}
			s.connected(what + ", while more come")
		}
		if s.l.silent > 256 {
			t.Errorf("%s: %d are accepted and silent", what, s.l.silent)
		}
	}
}

// TestC6_ManyPeersAtOnce: peers that all connect at once are not treated as an attack: none
// is given up before it is overdue, and those beyond the bound are not refused but repeat
// their REQs.
func TestC6_ManyPeersAtOnce(t *testing.T) {
	s := newBesieged(t)
	for host := range 300 {
		s.ask(netip.AddrFrom4([4]byte{10, 7, byte(host >> 8), byte(host)}))
	}
	n := s.b.m.Counters()
	if n.GivenUp != 0 || n.Refused != 44 || n.Sent[mad.AttrREJ-mad.AttrREQ] != 0 || s.l.silent != 256 {
		t.Errorf("%d given up, %d unanswered, %d rejected, %d silent", n.GivenUp, n.Refused, n.Sent[mad.AttrREJ-mad.AttrREQ], s.l.silent)
	}
	s.now = s.now.Add(overdue)
	for host := range 44 {
		s.ask(netip.AddrFrom4([4]byte{10, 7, 1, byte(200 + host)}))
	}
	if n := s.b.m.Counters(); n.GivenUp != 44 || n.Refused != 44 {
		t.Errorf("later %d are given up, %d unanswered", n.GivenUp, n.Refused)
	}
	must.Do(t, invariants(s.b.m))
}

// TestC6_LargestGroupFirst fills a manager from random addresses at random listeners: the
// evicted connection is always the oldest of the largest group, and the groups stay consistent.
func TestC6_LargestGroupFirst(t *testing.T) {
	const seed = 10
	rng := rand.New(rand.NewPCG(seed, seed))
	r := newLimitedRig(t, Limits{MaxConns: 100, MaxListeners: 3, MaxHalfOpen: 40})
	for k := range mad.ServiceID(3) {
		l, err := r.m.Listen(service+k, r.onEvent)
		r.do(err)
		l.MaxSilent = 12 + 12*int(k)
	}
	gave := 0
	for i := range 5000 {
		r.now = r.now.Add(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
		from := netip.AddrFrom4([4]byte{10, 9, 9, byte(rng.ExpFloat64() * 3)})
		q := r.reqN(from, i)
		q.ServiceID += mad.ServiceID(rng.IntN(3))
		l := r.m.listeners[q.ServiceID]
		var first *Conn
		if l.silent >= l.MaxSilent {
			first = l.groups.All()[0].list.oldest
		}
		own, n := r.m.silent[silentKey{l, from}], r.m.Counters()
		r.conn = nil
		r.receiveFrom(from, mad.AttrREQ, q)
		if first != nil && r.m.Counters().GivenUp > n.GivenUp && first.state != Idle && (own == nil || r.m.half[from] < 30) {
			t.Fatalf("seed %d, REQ %d: the oldest of the largest group is in %v", seed, i, first.state)
		}
		gave += int(r.m.Counters().GivenUp - n.GivenUp)
		if c := r.conn; c != nil {
			r.do(c.SendREP(r.now, r.repParams()))
			if rng.IntN(8) == 0 {
				r.receiveFrom(from, mad.AttrRTU, &mad.RTU{LocalCommID: c.remoteID, RemoteCommID: c.localID})
				r.receiveFrom(from, mad.AttrREJ, &mad.REJ{LocalCommID: c.remoteID, RemoteCommID: c.localID, Message: mad.WhichOther})
			}
			if rng.IntN(8) == 0 {
				c.Destroy(r.now)
			}
		}
		r.m.Advance(r.now)
		if err := invariants(r.m); err != nil {
			t.Fatalf("seed %d, REQ %d: %v", seed, i, err)
		}
	}
	if gave < 100 {
		t.Errorf("only %d gave way", gave)
	}
}

// TestC6_MoreThanTheBound: requests that the program had not decided on when they came, and
// accepts later, may be more than the bound. The next request ends all of them but one at
// once, not one for each repetition.
func TestC6_MoreThanTheBound(t *testing.T) {
	r := newRig(t)
	l := r.listen()
	l.MaxSilent = 4
	var conns []*Conn
	for i := range 12 {
		r.receive(mad.AttrREQ, r.reqN(r.peer, i))
		conns = append(conns, r.conn)
	}
	for _, c := range conns {
		r.do(c.SendREP(r.now, r.repParams()))
	}
	if l.silent != 12 {
		t.Fatalf("%d are silent", l.silent)
	}
	other := r.peer.Next()
	r.conn = nil
	r.receiveFrom(other, mad.AttrREQ, r.reqN(other, 20))
	if r.conn == nil || l.silent != 3 || r.m.Counters().GivenUp != 9 {
		t.Errorf("the next one is taken: %v; %d are silent", r.conn != nil, l.silent)
	}
}
