package cm

import (
	"errors"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

const (
	rigEECN  = ib.EECN(0x111)
	peerEECN = ib.EECN(0x222)
	rigQKey  = ib.QKey(0x1111)
	peerQKey = ib.QKey(0x2222)
)

// rdRig is a rig whose consumer knows reliable datagrams.
type rdRig struct {
	*rig
	down   []ib.EECN // EE contexts of channels that ended
	failed bool      // the EE contexts have failed
	ids    uint32    // of the peer, so far
}

func newRDRig(t testing.TB) *rdRig { return newLimitedRDRig(t, DefaultLimits()) }

func newLimitedRDRig(t testing.TB, l Limits) *rdRig {
	r := &rdRig{rig: newLimitedRig(t, l)}
	r.m.cfg.ChannelDown = func(_ clock.Instant, h *Channel) { r.down = append(r.down, h.Local()) }
	r.m.cfg.ChannelUsable = func(*Channel) bool { return !r.failed }
	r.listen().RD = true
	return r
}

func (r *rdRig) consistent() {
	r.t.Helper()
	must.Do(r.t, invariants(r.m))
}

// ask begins a connection, over a new channel unless there is one.
func (r *rdRig) ask(h *Channel, n ib.EECN) *Conn {
	r.t.Helper()
	p := r.reqParams()
	p.Transport, p.QKey, p.EECN, p.Channel = mad.TransportRD, rigQKey, n, h
	c := r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, p))
	return c
}

// asked is the REQ of the peer, for a new channel unless there is one.
func (r *rdRig) asked(h *Channel) *mad.REQ {
	r.ids++
	q := r.req()
	q.LocalCommID += r.ids
	q.Transport, q.LocalEECN, q.LocalQKey = mad.TransportRD, uint32(peerEECN), peerQKey
	if h != nil {
		q.RDCExists, q.LocalEECN, q.RemoteEECN = true, uint32(h.Remote()), uint32(h.Local())
	}
	return q
}

func (r *rdRig) answer(c *Conn) *mad.REP {
	r.ids++
	p := r.rep(c)
	p.LocalCommID += r.ids
	p.LocalEECN, p.LocalQKey = uint32(peerEECN), peerQKey
	return p
}

// began returns a connection that we began and that is established.
func (r *rdRig) began(h *Channel) *Conn {
	r.t.Helper()
	n := rigEECN
	if h != nil {
		n = 0
	}
	c := r.ask(h, n)
	r.receive(mad.AttrREP, r.answer(c))
	r.do(c.SendRTU(r.now, nil))
	r.consistent()
	return c
}

// took returns a connection that the peer began and that is established.
func (r *rdRig) took(h *Channel) *Conn {
	r.t.Helper()
	q := r.asked(h)
	r.receive(mad.AttrREQ, q)
	c := r.conn
	r.accept(c)
	r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: c.LocalID()})
	r.wantState(c, Established)
	r.consistent()
	return c
}

func (r *rdRig) accept(c *Conn) {
	r.t.Helper()
	p := r.repParams()
	p.QKey = rigQKey
	if !c.Channel().JoinedBy(c) {
		p.EECN = rigEECN
	}
	r.do(c.SendREP(r.now, p))
}

// TestC14_ActiveFields: REQ names our EE context and Q_Key, REP the peer's, and the
// EE context gets what both agreed on.
func TestC14_ActiveFields(t *testing.T) {
	r := newRDRig(t)
	c := r.ask(nil, rigEECN)
	q := last(r.rig, mad.AttrREQ, &mad.REQ{})
	if q.Transport != mad.TransportRD || q.LocalEECN != uint32(rigEECN) || q.LocalQKey != rigQKey || q.RDCExists || q.RemoteEECN != 0 || q.LocalQPN != rigQPN {
		t.Errorf("REQ %+v", q)
	}
	if h := c.Channel(); h.State() != ChannelOpening || h.Local() != rigEECN || h.Remote() != 0 || h.Users() != 1 {
		t.Errorf("channel %+v", h)
	}
	r.receive(mad.AttrREP, r.answer(c))
	if c.RemoteQPN() != peerQPN || c.Channel().Remote() != peerEECN {
		t.Errorf("the peer is QP %v, EE context %v", c.RemoteQPN(), c.Channel().Remote())
	}
	want := map[ib.QPState]ib.AttrMask{
		ib.INIT: ib.AttrState | ib.AttrPKeyIndex | ib.AttrPort,
		ib.RTR:  ib.AttrState | ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic,
		ib.RTS:  ib.AttrState | ib.AttrSQPSN | ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrMaxRDAtomic,
	}
	for to, mask := range want {
		a, got, err := c.QPAttr(to)
		if err != nil || got != mask {
			t.Errorf("%v: mask %v, want %v; %v", to, got, mask, err)
		}
		if to == ib.RTR && (a.DestQPN != ib.QPN(peerEECN) || a.MaxDestRDAtomic != 3 || a.RQPSN.Value() != q.StartingPSN.Value()) {
			t.Errorf("%v: %+v", to, a)
		}
		if to == ib.RTS && (a.RetryCnt != 6 || a.RNRRetry != 2 || a.MaxRDAtomic != 2 || a.SQPSN.Value() != 0x123456) {
			t.Errorf("%v: %+v", to, a)
		}
	}
	r.do(c.SendRTU(r.now, nil))
	if c.Channel().State() != ChannelUp {
		t.Errorf("channel in %v after RTU", c.Channel().State())
	}
	r.consistent()
}

// TestC14_PassiveFields is the same for a REQ of the peer.
func TestC14_PassiveFields(t *testing.T) {
	r := newRDRig(t)
	r.receive(mad.AttrREQ, r.asked(nil))
	c := r.conn
	if h := c.Channel(); h == nil || h.State() != ChannelOpening || h.Remote() != peerEECN || h.Local() != 0 || c.Channel().JoinedBy(c) {
		t.Fatalf("channel %+v", h)
	}
	r.consistent()
	r.accept(c)
	p := last(r.rig, mad.AttrREP, &mad.REP{})
	if p.LocalEECN != uint32(rigEECN) || p.LocalQKey != rigQKey || p.LocalQPN != rigQPN {
		t.Errorf("REP %+v", p)
	}
	if c.Channel().State() != ChannelUp {
		t.Errorf("channel in %v after REP: RTU of the peer may be behind its next REQ", c.Channel().State())
	}
	a, _, err := c.QPAttr(ib.RTR)
	if err != nil || a.DestQPN != ib.QPN(peerEECN) {
		t.Errorf("%+v, %v", a, err)
	}
	r.consistent()
}

// TestC14_Reuse: connections of both sides join a channel, and it ends with the
// last of them, from either side.
func TestC14_Reuse(t *testing.T) {
	r := newRDRig(t)
	first := r.began(nil)
	h := first.Channel()
	second := r.began(h)
	q := decode(&mad.REQ{}, r.sent[len(r.sent)-2])
	if !q.RDCExists || q.LocalEECN != uint32(rigEECN) || q.RemoteEECN != uint32(peerEECN) || q.LocalQKey != rigQKey {
		t.Errorf("REQ %+v", q)
	}
	third := r.took(h)
	if p := last(r.rig, mad.AttrREP, &mad.REP{}); p.LocalEECN != uint32(rigEECN) || p.LocalQKey != rigQKey {
		t.Errorf("REP %+v", p)
	}
	if h.Users() != 3 || second.Channel() != h || third.Channel() != h || !second.Channel().JoinedBy(second) || !third.Channel().JoinedBy(third) || first.Channel().JoinedBy(first) {
		t.Fatalf("%d users", h.Users())
	}
	if _, _, err := second.QPAttr(ib.RTR); !errors.Is(err, ib.EINVAL) {
		t.Errorf("attributes for an EE context that is in use: %v", err)
	}
	r.do(first.SendDREQ(r.now, nil))
	if d := last(r.rig, mad.AttrDREQ, &mad.DREQ{}); d.RemoteQPN != ib.QPN(peerEECN) {
		t.Errorf("DREQ names %v", d.RemoteQPN)
	}
	r.receive(mad.AttrDREQ, &mad.DREQ{LocalCommID: third.RemoteID(), RemoteCommID: third.LocalID(), RemoteQPN: ib.QPN(rigEECN)})
	r.wantState(third, DReqRcvd)
	if h.State() != ChannelUp || len(r.down) != 0 || h.Users() != 1 {
		t.Fatalf("channel in %v with %d users, ended %v: one uses it still", h.State(), h.Users(), r.down)
	}
	r.consistent()
	r.receive(mad.AttrREJ, &mad.REJ{LocalCommID: second.RemoteID(), RemoteCommID: second.LocalID(), Message: mad.WhichOther, Reason: mad.RejConsumer})
	if h.State() != ChannelDown || !slices.Equal(r.down, []ib.EECN{rigEECN}) {
		t.Fatalf("channel in %v, ended %v, after the last", h.State(), r.down)
	}
	r.consistent()
	// Its EE context is free after the last TIMEWAIT.
	p := r.reqParams()
	p.Transport, p.EECN = mad.TransportRD, rigEECN
	if err := r.m.NewConn(r.onEvent).SendREQ(r.now, p); !errors.Is(err, ib.EBUSY) {
		t.Errorf("an EE context in TIMEWAIT serves another channel: %v", err)
	}
	r.do(third.SendDREP(r.now, nil))
	r.quiet()
	if h.State() != ChannelOver || second.Channel() != nil {
		t.Errorf("channel in %v after TIMEWAIT", h.State())
	}
	r.consistent()
	r.ask(nil, rigEECN)
}

// TestC14_WrongNumber: DREQ and LAP name the receiver's EE context.
func TestC14_WrongNumber(t *testing.T) {
	r := newRDRig(t)
	c := r.took(nil)
	r.clear()
	for _, n := range []ib.QPN{rigQPN, ib.QPN(peerEECN), 0} {
		r.receive(mad.AttrDREQ, &mad.DREQ{LocalCommID: c.RemoteID(), RemoteCommID: c.LocalID(), RemoteQPN: n})
		l := r.lap(c)
		l.LocalCommID, l.RemoteQPN = c.RemoteID(), n
		r.receive(mad.AttrLAP, l)
	}
	r.wantState(c, Established)
	r.wantSent("numbers that are not ours")
	r.wantEvents("numbers that are not ours")
	if n := r.m.Counters().Invalid; n != 6 {
		t.Errorf("%d counted as invalid", n)
	}
	l := r.lap(c)
	l.LocalCommID, l.RemoteQPN = c.RemoteID(), ib.QPN(rigEECN)
	r.receive(mad.AttrLAP, l)
	r.wantEvents("ours", LAPReceived)
	r.do(c.SendAPR(r.now, &APRParams{Status: mad.APRRejected}))

	c = r.began(c.Channel())
	path := r.path()
	r.do(c.SendLAP(r.now, &path, nil))
	if l := last(r.rig, mad.AttrLAP, &mad.LAP{}); l.RemoteQPN != ib.QPN(peerEECN) {
		t.Errorf("LAP names %v", l.RemoteQPN)
	}
}

// TestC14_JoinRefused: a REQ with "RDC exists" must name both EE contexts of a
// channel that is up and its sender's. A sender that guesses always gets the
// same answer.
func TestC14_JoinRefused(t *testing.T) {
	r := newRDRig(t)
	h := r.took(nil).Channel()
	other := r.us.Next().Next() // a stranger's
	for name, change := range map[string]func(*mad.REQ){
		"our EE context": func(q *mad.REQ) { q.RemoteEECN++ },
		"no EE context":  func(q *mad.REQ) { q.RemoteEECN = 0 },
		"its EE context": func(q *mad.REQ) { q.LocalEECN++ },
		"its node":       func(q *mad.REQ) { q.LocalCAGUID++ },
		"its address":    func(q *mad.REQ) { q.Primary.LocalGID = ib.GIDFromAddr(other) },
		"a failed one":   func(*mad.REQ) { r.failed = true },
	} {
		r.clear()
		r.failed = false
		q := r.asked(h)
		change(q)
		r.receiveFrom(q.Primary.LocalGID.Addr(), mad.AttrREQ, q)
		r.wantSent(name, "REJ: RDC does not exist")
		r.wantEvents(name)
		r.consistent()
	}
	if r.failed = false; h.State() != ChannelUp || h.Users() != 1 || r.m.Conns() != 1 {
		t.Errorf("the channel is in %v with %d users", h.State(), h.Users())
	}

	// A request may not name a channel that is not yet up, or has ended, either.
	q := r.asked(nil)
	q.LocalEECN++
	r.receive(mad.AttrREQ, q)
	opening := r.conn
	r.do(h.users[0].SendDREQ(r.now, nil))
	r.clear()
	r.receive(mad.AttrREQ, r.asked(h))
	r.wantSent("a channel that is down", "REJ: RDC does not exist")
	opening.channel.local = 5
	r.m.channels[5] = opening.channel // as if its number were known
	r.receive(mad.AttrREQ, r.asked(opening.channel))
	r.wantSent("a channel that is not up", "REJ: RDC does not exist", "REJ: RDC does not exist")
}

// TestC14_CallsRefused: calls whose REQ or REP would name an invalid channel
// change nothing.
func TestC14_CallsRefused(t *testing.T) {
	r := newRDRig(t)
	h := r.began(nil).Channel()
	other := newRDRig(t).began(nil).Channel()
	for name, c := range map[string]struct {
		change func(*REQParams)
		want   error
	}{
		"no EE context":         {func(p *REQParams) { p.EECN = 0 }, ib.EINVAL},
		"25 bits":               {func(p *REQParams) { p.EECN = 1 << 24 }, ib.EINVAL},
		"one that is in use":    {func(p *REQParams) { p.EECN = rigEECN }, ib.EBUSY},
		"of RC":                 {func(p *REQParams) { p.Transport = mad.TransportRC }, ib.EINVAL},
		"a Q_Key of RC":         {func(p *REQParams) { p.Transport, p.EECN, p.QKey = mad.TransportRC, 0, 1 }, ib.EINVAL},
		"no service":            {func(p *REQParams) { p.Transport = mad.TransportExtended }, ib.EINVAL},
		"two":                   {func(p *REQParams) { p.Channel = h }, ib.EINVAL},
		"another adapter's":     {func(p *REQParams) { p.Channel, p.EECN = other, 0 }, ib.EINVAL},
		"a channel to another":  {func(p *REQParams) { p.Channel, p.EECN, p.Path.Remote = h, 0, r.us }, ib.EINVAL},
		"a channel that failed": {func(p *REQParams) { p.Channel, p.EECN, r.failed = h, 0, true }, ib.ENOTCONN},
	} {
		r.clear()
		r.failed = false
		p := r.reqParams()
		p.Transport, p.EECN = mad.TransportRD, rigEECN+1
		c.change(p)
		k := r.m.NewConn(r.onEvent)
		if err := k.SendREQ(r.now, p); !errors.Is(err, c.want) || k.State() != Idle {
			t.Errorf("%s: %v in %v, want %v", name, err, k.State(), c.want)
		}
		r.wantSent(name)
		r.consistent()
	}
	r.failed = false
	r.receive(mad.AttrREQ, r.asked(h))
	joins := r.conn
	q := r.asked(nil)
	q.LocalEECN++
	r.receive(mad.AttrREQ, q)
	opens := r.conn
	r.clear()
	for _, c := range []struct {
		on   *Conn
		eecn ib.EECN
	}{{joins, rigEECN + 1}, {opens, 0}, {opens, rigEECN}, {opens, 1 << 24}} {
		p := r.repParams()
		p.EECN = c.eecn
		if err := c.on.SendREP(r.now, p); err == nil {
			t.Errorf("REP names %v", c.eecn)
		}
		r.wantState(c.on, ReqRcvd)
	}
	r.wantSent("refused calls")
	r.consistent()

	rc := newRig(t)
	rc.listen()
	p := rc.repParams()
	p.QKey = 1
	if err := rc.passive(ReqRcvd).SendREP(rc.now, p); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a Q_Key in a REP of RC: %v", err)
	}
}

// TestC14_UnknownToConsumer: a consumer gets only requests for the services
// that it knows.
func TestC14_UnknownToConsumer(t *testing.T) {
	rd, rc := newRDRig(t), newRig(t)
	rc.listen()
	rd.receive(mad.AttrREQ, rd.req())
	rd.wantSent("RC", "REJ: invalid transport service")
	rc.receive(mad.AttrREQ, rd.asked(nil))
	rc.wantSent("RD", "REJ: invalid transport service")
	rd.clear()
	q := rd.asked(nil)
	q.LocalEECN = 0
	rd.receive(mad.AttrREQ, q)
	rd.wantSent("an EE context without a number", "REJ: no EE context")
	if n := rd.m.Conns() + rc.m.Conns(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestC14_StaleREQ: a REQ for a new channel with the peer's EE context of an old
// one ends the old one, with all its connections.
func TestC14_StaleREQ(t *testing.T) {
	r := newRDRig(t)
	h := r.took(nil).Channel()
	second := r.began(h)
	r.clear()
	r.receive(mad.AttrREQ, r.asked(nil))
	r.wantSent("a new channel of the same EE context", "REJ: stale connection", "DREQ", "DREQ")
	r.wantState(second, DReqSent)
	if h.State() != ChannelDown || len(r.down) != 1 {
		t.Errorf("channel in %v", h.State())
	}
	r.consistent()
	// Now the peer's EE context is free for a new one.
	r.clear()
	q := r.asked(nil)
	r.receive(mad.AttrREQ, q)
	r.wantEvents("the next REQ", REQReceived)
	r.consistent()
}

// TestC14_StaleREP does the same where the peer answers.
func TestC14_StaleREP(t *testing.T) {
	r := newRDRig(t)
	old := r.began(nil)
	c := r.ask(nil, rigEECN+1)
	r.clear()
	r.receive(mad.AttrREP, r.answer(c))
	r.wantSent("REP with an EE context that another channel has", "REJ: stale connection", "DREQ")
	r.wantState(c, ReqSent)
	r.wantState(old, DReqSent)
	r.consistent()
	p := r.answer(c)
	r.receive(mad.AttrREP, p)
	r.wantState(c, RepRcvd)
	r.consistent()
}

// TestC14_ContradictingREP: the answer to a REQ that joins a channel names the
// channel's EE context; any other REP must name one, too.
func TestC14_ContradictingREP(t *testing.T) {
	r := newRDRig(t)
	h := r.began(nil).Channel()
	joins, opens := r.ask(h, 0), r.ask(nil, rigEECN+1)
	for _, change := range []func(*mad.REP){
		func(p *mad.REP) { p.LocalEECN++ }, func(p *mad.REP) { p.LocalEECN = 0 }, func(p *mad.REP) { p.LocalCAGUID++ },
	} {
		p := r.answer(joins)
		change(p)
		r.receive(mad.AttrREP, p)
		r.wantState(joins, ReqSent)
	}
	p := r.answer(opens)
	p.LocalEECN = 0
	r.receive(mad.AttrREP, p)
	r.wantState(opens, ReqSent)
	if n := r.m.Counters().Invalid; n != 4 {
		t.Errorf("%d counted as invalid", n)
	}
	r.consistent()
	r.receive(mad.AttrREP, r.answer(joins))
	r.wantState(joins, RepRcvd)
}

// TestC14_NeverMade: a channel ends if its first connection fails, in every
// possible way; but not if other connections use it.
func TestC14_NeverMade(t *testing.T) {
	for name, end := range map[string]func(r *rdRig, c *Conn){
		"REJ": func(r *rdRig, c *Conn) {
			r.receive(mad.AttrREJ, &mad.REJ{RemoteCommID: c.LocalID(), Message: mad.WhichREQ, Reason: mad.RejNoEEC})
		},
		"no answer": func(r *rdRig, _ *Conn) { r.quiet() },
		"destroyed": func(r *rdRig, c *Conn) { c.Destroy(r.now) },
		"rejected":  func(r *rdRig, c *Conn) { r.receive(mad.AttrREP, r.answer(c)); r.do(c.SendREJ(r.now, &REJParams{})) },
	} {
		r := newRDRig(t)
		end(r, r.ask(nil, rigEECN))
		r.quiet()
		if !slices.Equal(r.down, []ib.EECN{rigEECN}) || r.m.Conns() != 0 {
			t.Errorf("%s: ended %v, %d connections", name, r.down, r.m.Conns())
		}
		r.consistent()

		r = newRDRig(t)
		h := r.began(nil).Channel()
		end(r, r.ask(h, 0))
		r.quiet()
		if len(r.down) != 0 || h.State() != ChannelUp || h.Users() != 1 {
			t.Errorf("%s of one that joins: ended %v", name, r.down)
		}
		r.consistent()
	}
	for name, end := range map[string]func(r *rdRig, c *Conn){
		"forgotten": func(r *rdRig, c *Conn) { c.Forget(r.now) },
		"destroyed": func(r *rdRig, c *Conn) { c.Destroy(r.now) },
		"no RTU":    func(r *rdRig, c *Conn) { r.accept(c); r.quiet() },
	} {
		r := newRDRig(t)
		r.receive(mad.AttrREQ, r.asked(nil))
		end(r, r.conn)
		if len(r.down) != 1 || r.m.Conns() != 0 {
			t.Errorf("%s: ended %v, %d connections", name, r.down, r.m.Conns())
		}
		r.consistent()
		r = newRDRig(t)
		h := r.took(nil).Channel()
		r.receive(mad.AttrREQ, r.asked(h))
		end(r, r.conn)
		if len(r.down) != 0 || h.Users() != 1 {
			t.Errorf("%s of one that joins: ended %v, %d users", name, r.down, h.Users())
		}
		r.consistent()
	}
}

// TestC14_RoomMadeByTheLastUser: the consumer of a connection evicted for a new
// one may end the channel that the new one joins.
func TestC14_RoomMadeByTheLastUser(t *testing.T) {
	l := DefaultLimits()
	l.MaxConns = 2
	r := newLimitedRDRig(t, l)
	c := r.took(nil)
	h := c.Channel()
	tw := r.began(h)
	r.do(tw.SendDREQ(r.now, nil))
	r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: tw.RemoteID(), RemoteCommID: tw.LocalID()})
	tw.SetHandler(func(now clock.Instant, _ *Conn, _ *Event) { c.Destroy(now) })
	r.clear()
	r.receive(mad.AttrREQ, r.asked(h))
	r.wantSent("REQ for a channel that ended to make room", "DREQ", "REJ: RDC does not exist")
	if h.State() != ChannelDown || r.m.HalfOpen() != 0 {
		t.Errorf("channel in %v, %d half open", h.State(), r.m.HalfOpen())
	}
	r.consistent()

	r = newLimitedRDRig(t, l)
	c = r.took(nil)
	h = c.Channel()
	tw = r.began(h)
	r.do(tw.SendDREQ(r.now, nil))
	r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: tw.RemoteID(), RemoteCommID: tw.LocalID()})
	tw.SetHandler(func(now clock.Instant, _ *Conn, _ *Event) { c.Destroy(now) })
	p := r.reqParams()
	p.Transport, p.Channel = mad.TransportRD, h
	k := r.m.NewConn(r.onEvent)
	if err := k.SendREQ(r.now, p); !errors.Is(err, ib.ENOTCONN) || k.State() != Idle {
		t.Errorf("joined a channel that ended meanwhile: %v", err)
	}
	r.consistent()
}

// TestC14_Guesses: a stranger guesses EE contexts 65536 times; no memory grows,
// and the channel stays.
func TestC14_Guesses(t *testing.T) {
	r := newRDRig(t)
	h := r.took(nil).Channel()
	q := r.asked(h)
	q.Primary.LocalGID = ib.GIDFromAddr(r.us.Next().Next())
	for n := range uint32(1 << 16) {
		q.LocalCommID, q.RemoteEECN = n+1, n&0xfff
		r.receiveFrom(r.us.Next().Next(), mad.AttrREQ, q)
		r.sent, r.to = r.sent[:0], r.to[:0]
	}
	if r.m.Conns() != 1 || h.State() != ChannelUp || h.Users() != 1 || r.m.Deadline() != clock.Never {
		t.Errorf("%d connections, channel in %v with %d users", r.m.Conns(), h.State(), h.Users())
	}
	if c := r.m.Counters(); c.Sent[mad.AttrREJ-mad.AttrREQ] != 1<<16 {
		t.Errorf("%d refusals", c.Sent[mad.AttrREJ-mad.AttrREQ])
	}
	r.consistent()
}

// TestC14_ChannelTableIsSound: every state of a channel is reached, and from each
// the end.
func TestC14_ChannelTableIsSound(t *testing.T) {
	seen := map[[2]uint8]bool{}
	reached := map[ChannelState]bool{ChannelOpening: true}
	for range numChannelStates {
		for s := range numChannelStates {
			for _, cell := range channelMachine[s] {
				if reached[s] && cell.defined {
					reached[cell.next] = true
				}
			}
		}
	}
	for _, row := range channelRows() {
		for _, s := range row.in {
			at := [2]uint8{uint8(s), uint8(row.on)}
			if seen[at] {
				t.Errorf("two rows for %v in %v", row.on, s)
			}
			seen[at] = true
		}
	}
	for s := range numChannelStates {
		if !reached[s] || !channelMachine[s][ChannelJoin].defined {
			t.Errorf("%v: reached %v; what a REQ that joins does: %v", s, reached[s], channelMachine[s][ChannelJoin].defined)
		}
	}
}
