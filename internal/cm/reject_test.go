package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// TestC7_RefusedREQ: each reason for which the manager itself rejects a REQ,
// and all fields of the REJ. Nothing is kept, and the listener gets no event.
func TestC7_RefusedREQ(t *testing.T) {
	other := mad.Path{LocalGID: ib.GID{15: 1}, RemoteGID: ib.GID{15: 2}}
	for _, row := range []struct {
		spoil func(q *mad.REQ)
		why   mad.RejReason
		info  string
	}{
		{func(q *mad.REQ) { q.ServiceID++ }, mad.RejInvalidServiceID, ""},
		{func(q *mad.REQ) { q.Transport = mad.TransportRD }, mad.RejInvalidTransport, ""},
		{func(q *mad.REQ) { q.Transport, q.ExtendedTransport = mad.TransportExtended, mad.ExtendedXRC+1 }, mad.RejInvalidTransport, ""},
		{func(q *mad.REQ) { q.Primary.RemoteGID[15]++ }, mad.RejInvalidGID, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01"},
		{func(q *mad.REQ) { q.Primary.RemoteGID = ib.GID{} }, mad.RejInvalidGID, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01"},
		{func(q *mad.REQ) { q.PKey = 0x8005 }, mad.RejInvalidGID, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01"},
		{func(q *mad.REQ) { q.Alternate = other }, mad.RejInvalidAltGID, ""},
		{func(q *mad.REQ) { q.PathMTU = 0 }, mad.RejInvalidMTU, ""},
		{func(q *mad.REQ) { q.PathMTU = 6 }, mad.RejInvalidMTU, ""},
		{func(q *mad.REQ) { q.PathMTU = ib.MTU4096 }, mad.RejInvalidMTU, ""}, // the port has 2048
	} {
		r := newRig(t)
		r.m.cfg.MTU = ib.MTU2048
		r.listen()
		q := r.req()
		row.spoil(q)
		r.receive(mad.AttrREQ, q)
		got := last(r, mad.AttrREJ, &mad.REJ{})
		want := mad.REJ{RemoteCommID: peerID, Message: mad.WhichREQ, Reason: row.why, InfoLength: uint8(len(row.info))}
		copy(want.Info[:], row.info)
		if *got != want || r.sent[0].Header().TID != peerTID {
			t.Errorf("sent %+v\nwant %+v", got, want)
		}
		r.wantEvents(row.why.String())
		if err := empty(r.m); err != nil {
			t.Errorf("%v: %v", row.why, err)
		}
	}
}

// TestC7_SenselessMessages: an invalid REQ or REP whose sender no answer would
// reach is dropped and counted.
func TestC7_SenselessMessages(t *testing.T) {
	for what, spoil := range map[string]func(q *mad.REQ){
		"no ID":                           func(q *mad.REQ) { q.LocalCommID = 0 },
		"QPN 0":                           func(q *mad.REQ) { q.LocalQPN = 0 },
		"QP1":                             func(q *mad.REQ) { q.LocalQPN = ib.QPNGSI },
		"QPN of multicast":                func(q *mad.REQ) { q.LocalQPN = ib.QPNMulticast },
		"a path to a third":               func(q *mad.REQ) { q.Primary.LocalGID[15]++ },
		"a path to nowhere":               func(q *mad.REQ) { q.Primary.LocalGID = ib.GID{} },
		"a path to the sender, not to us": func(q *mad.REQ) { q.Primary.LocalGID, q.Primary.RemoteGID = q.Primary.RemoteGID, q.Primary.LocalGID },
	} {
		r := newRig(t)
		r.listen()
		q := r.req()
		spoil(q)
		r.receive(mad.AttrREQ, q)
		r.wantSent("REQ with " + what)
		r.wantEvents("REQ with " + what)
		if err := empty(r.m); err != nil || r.m.Counters().Invalid != 1 {
			t.Errorf("REQ with %s: %v, %d counted", what, err, r.m.Counters().Invalid)
		}
	}
	for what, spoil := range map[string]func(p *mad.REP){
		"no ID":            func(p *mad.REP) { p.LocalCommID = 0 },
		"QP1":              func(p *mad.REP) { p.LocalQPN = ib.QPNGSI },
		"QPN of multicast": func(p *mad.REP) { p.LocalQPN = ib.QPNMulticast },
	} {
		r := newRig(t)
		c := r.active(ReqSent)
		p := r.rep(c)
		spoil(p)
		r.clear()
		r.receive(mad.AttrREP, p)
		r.wantSent("REP with " + what)
		r.wantState(c, ReqSent)
		if r.m.Counters().Invalid != 1 {
			t.Errorf("REP with %s is not counted", what)
		}
	}
}

// TestC7_ConsumerReject: reason, information and private data come from the
// consumer; the rejected message and the IDs follow from the state.
func TestC7_ConsumerReject(t *testing.T) {
	for s, want := range map[State]mad.REJ{
		ReqSent:    {LocalCommID: 1, Message: mad.WhichOther},
		ReqRcvd:    {RemoteCommID: peerID, Message: mad.WhichREQ}, // no ID that the peer could answer to
		MRAReqSent: {LocalCommID: 1, RemoteCommID: peerID, Message: mad.WhichREQ},
		RepRcvd:    {LocalCommID: 1, RemoteCommID: peerID, Message: mad.WhichREP},
		MRARepSent: {LocalCommID: 1, RemoteCommID: peerID, Message: mad.WhichREP},
		RepSent:    {LocalCommID: 1, RemoteCommID: peerID, Message: mad.WhichOther},
	} {
		c, r := reach(t, s, sidesOf(stateWords[s].side)[0])
		want.Reason, want.InfoLength = mad.RejNoResources, 3
		copy(want.Info[:], "why")
		copy(want.PrivateData[:], "no thanks")
		if want.LocalCommID != 0 {
			want.LocalCommID = c.LocalID()
		}
		r.do(c.SendREJ(r.now, &REJParams{Reason: mad.RejNoResources, Info: []byte("why"), PrivateData: []byte("no thanks")}))
		if got := last(r, mad.AttrREJ, &mad.REJ{}); *got != want {
			t.Errorf("%v: sent %+v\nwant %+v", s, got, want)
		}
		r.quiet()
		if err := empty(r.m); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// TestC7_RejectIsHeard: the other side gets the REJ of a REQ or a REP, with all
// fields.
func TestC7_RejectIsHeard(t *testing.T) {
	for _, who := range []string{"a", "b"} {
		n, a, b := newNetwork(t)
		rejecter, at := b, REQReceived
		if who == "a" {
			rejecter, at = a, REPReceived
		}
		var heard []mad.REJ
		program := func(e *node) Handler {
			return func(now clock.Instant, c *Conn, ev *Event) {
				switch {
				case ev.Type == REJReceived:
					heard = append(heard, *ev.REJ)
				case e == rejecter && ev.Type == at:
					n.do(c.SendREJ(now, &REJParams{Reason: 28, PrivateData: []byte("no")}))
				default:
					e.polite(now, c, ev)
				}
			}
		}
		a.program, b.program = program(a), program(b)
		b.listen()
		a.ask(b)
		n.wantEmpty()
		if len(heard) != 1 || heard[0].Reason != mad.RejConsumer || string(heard[0].PrivateData[:3]) != "no\x00" {
			t.Errorf("%s rejects: heard %+v", who, heard)
		}
	}
}

// TestC7_LostREJ: the REQ is repeated, and the consumer gets it again.
func TestC7_LostREJ(t *testing.T) {
	n, a, b := newNetwork(t)
	b.program = func(now clock.Instant, c *Conn, ev *Event) { c.Destroy(now) }
	b.listen()
	n.drop(b, mad.AttrREJ, 1)
	a.ask(b)
	n.finish()
	n.wantLog(`
		0.000 a sends REQ
		0.001 b hears REQ_RECEIVED
		0.001 b sends REJ: consumer reject, lost
		6.442 a sends REQ
		6.443 b hears REQ_RECEIVED
		6.443 b sends REJ: consumer reject
		6.444 a hears REJ_RECEIVED`)
	n.wantEmpty()
}

// TestC7_TimeoutIsMatchedByGUID: the REJ of a peer that gives up its REQ does
// not name our ID, which it never learnt, but its node.
func TestC7_TimeoutIsMatchedByGUID(t *testing.T) {
	for _, s := range []State{ReqRcvd, MRAReqSent, RepSent, MRARepRcvd} {
		c, r := reach(t, s, Passive)
		j := &mad.REJ{LocalCommID: peerID, Message: mad.WhichOther, Reason: mad.RejTimeout, InfoLength: 8}
		copy(j.Info[:], "\x02\x00\x00\x00\x00\x00\x00\x09") // another node
		r.receive(mad.AttrREJ, j)
		r.wantState(c, s)
		j.Info[7], j.InfoLength = peerGUID&0xff, 7 // too short to be a GUID
		r.receive(mad.AttrREJ, j)
		r.wantState(c, s)
		j.InfoLength = 8
		r.clear()
		r.receive(mad.AttrREJ, j)
		r.wantEvents(s.String(), REJReceived)
		r.wantState(c, Idle)
		if err := empty(r.m); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// TestC7_LateREJ: a REJ for a repetition of a REQ that was accepted after all
// does not end the connection, nor does a REJ of another connection.
func TestC7_LateREJ(t *testing.T) {
	for _, s := range []State{RepRcvd, MRARepSent, Established, DReqSent} {
		c, r := reach(t, s, Active)
		r.clear()
		r.receive(mad.AttrREJ, &mad.REJ{RemoteCommID: c.LocalID(), Message: mad.WhichREQ, Reason: mad.RejInvalidServiceID})
		r.receive(mad.AttrREJ, &mad.REJ{LocalCommID: peerID + 1, RemoteCommID: c.LocalID(), Message: mad.WhichOther, Reason: 28})
		r.receive(mad.AttrREJ, &mad.REJ{LocalCommID: peerID + 1, RemoteCommID: c.LocalID(), Message: mad.WhichREP, Reason: 28})
		r.wantState(c, s)
		r.wantEvents(s.String())
		if n := r.m.Counters().Unmatched; n != 3 {
			t.Errorf("%v: %d messages counted", s, n)
		}
	}
}

// TestC7_REPForNobody: a REP without a connection is rejected, because
// otherwise its sender would keep a QP until its repetitions are used up.
func TestC7_REPForNobody(t *testing.T) {
	r := newRig(t)
	p := r.rep(&Conn{localID: 99})
	r.receive(mad.AttrREP, p)
	got, want := last(r, mad.AttrREJ, &mad.REJ{}), mad.REJ{LocalCommID: 99, RemoteCommID: peerID, Message: mad.WhichREP, Reason: mad.RejInvalidCommID}
	if *got != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}

	n, a, b := newNetwork(t)
	b.listen()
	c := a.ask(b)
	n.run(latency + latency/2)
	a.boot(DefaultLimits(), 77) // it has lost all connections
	n.finish()
	_ = c
	n.wantLog(`
		0.000 a sends REQ
		0.001 b hears REQ_RECEIVED
		0.001 b sends REP
		0.002 a sends REJ: invalid communication id
		0.003 b hears REJ_RECEIVED`)
	n.wantEmpty()
}

// TestC1_AnswersGoToQP1: answers go to QP1, from whichever QP of the peer the
// message came.
func TestC1_AnswersGoToQP1(t *testing.T) {
	for on, want := range map[Input]string{
		MsgREQ: "REJ: invalid service id", MsgREP: "REJ: invalid communication id", MsgRTU: "REJ: invalid communication id",
		MsgDREQ: "DREP", MsgSIDRREQ: "SIDR_REP: unsupported service id",
	} {
		r := newRig(t)
		r.from = 9
		tell(r, &Conn{localID: 0x5555_5555}, on)
		r.wantSent(on.String(), want)
		if r.to[0].QPN != ib.QPNGSI || r.to[0].Remote != r.peer || r.to[0].Local != r.us {
			t.Errorf("%v is answered to %+v", on, r.to[0])
		}
	}
	r := newRig(t)
	r.from = 9
	r.listen()
	r.do(r.passive(SIDRReqRcvd).SendSIDRREP(r.now, &SIDRREPParams{}))
	if r.to[0].QPN != ib.QPNGSI {
		t.Errorf("SIDR_REQ is answered to %+v", r.to[0])
	}
}

// TestC6_RTUForNobody: a side that sends RTU for a connection that the other
// side has silently given up gets a REJ then.
func TestC6_RTUForNobody(t *testing.T) {
	r := newRig(t)
	r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: peerID, RemoteCommID: 99})
	got, want := last(r, mad.AttrREJ, &mad.REJ{}), mad.REJ{LocalCommID: 99, RemoteCommID: peerID, Message: mad.WhichOther, Reason: mad.RejInvalidCommID}
	if *got != want || r.sent[0].Header().TID != peerTID {
		t.Errorf("sent %+v, want %+v", got, want)
	}

	n, a, b := newNetwork(t)
	a.program = a.idle
	b.listen()
	c := a.ask(b)
	n.run(time.Minute) // the passive side gives up silently: the peer has not answered
	n.log.Reset()
	n.do(c.SendRTU(n.now, nil))
	n.wantEmpty()
	n.wantLog(`
		60.000 a sends RTU
		60.001 b sends REJ: invalid communication id
		60.002 a hears REJ_RECEIVED
		62.149 a hears TIMEWAIT_EXIT`)
}

// TestC6_RTUCrossesREJ: the consumer of the passive side rejects while RTU is
// on its way, and its REJ is lost. RTU makes it send the same REJ again; no
// other message than REJ is repeated so.
func TestC6_RTUCrossesREJ(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	n.drop(b, mad.AttrREJ, 1)
	a.ask(b)
	n.later(2*latency+latency/2, func() { b.conns[0].Destroy(n.now) })
	n.finish()
	n.wantLog(`
		0.000 a sends REQ
		0.001 b hears REQ_RECEIVED
		0.001 b sends REP
		0.002 a hears REP_RECEIVED
		0.002 a sends RTU
		0.003 b sends REJ: consumer reject, lost
		0.003 b sends REJ: consumer reject
		0.004 a hears REJ_RECEIVED
		2.151 a hears TIMEWAIT_EXIT`)
	n.wantEmpty()

	c, r := reach(t, RepSent, Passive)
	r.clear()
	r.do(c.SendREJ(r.now, &REJParams{Reason: mad.RejNoResources, PrivateData: []byte("no thanks")}))
	tell(r, c, MsgRTU)
	if len(r.sent) != 2 || *r.sent[0] != *r.sent[1] {
		t.Errorf("sent %q, want a REJ and the same again", r.kinds())
	}
	c, r = reach(t, RepSent, Passive)
	tell(r, c, MsgDREQ) // this peer knows that it is over
	r.do(c.SendDREP(r.now, nil))
	r.clear()
	tell(r, c, MsgRTU)
	r.wantSent("RTU after DREQ and DREP")
}

// TestC7_StaleREQ: a peer that was restarted uses the QP of a connection that
// we think is up. It gets a REJ, our side ends, and its next attempt succeeds.
func TestC7_StaleREQ(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	_, d := a.connect(b)
	a.boot(DefaultLimits(), 77)
	a.qpn = 0x100 // the same again
	a.ask(b)
	n.run(10 * latency)
	n.wantLog(`
		0.010 a sends REQ
		0.011 b sends REJ: stale connection
		0.011 b sends DREQ
		0.012 a hears REJ_RECEIVED
		0.012 a sends DREP
		0.013 b hears DREP_RECEIVED`)
	if d.State() != Timewait {
		t.Errorf("the old connection is in %v", d.State())
	}
	a.qpn = 0x100
	c := a.ask(b)
	n.run(10 * latency)
	if c.State() != Established {
		t.Errorf("the new connection is in %v:\n%s", c.State(), n.tail())
	}
	c.Destroy(n.now)
	n.wantEmpty()
}

// TestC7_StaleREQIsValid: a REQ that names the QP of a connection ends that
// connection only if nothing else is wrong with it. Each of these is answered
// according to its error, or not at all, and the connection stays.
func TestC7_StaleREQIsValid(t *testing.T) {
	elsewhere := ib.GIDFromAddr(netip.MustParseAddr("10.0.0.77"))
	for what, c := range map[string]struct {
		spoil func(*mad.REQ)
		want  []string
	}{
		"no ID":            {func(q *mad.REQ) { q.LocalCommID = 0 }, nil},
		"path":             {func(q *mad.REQ) { q.Primary.LocalGID = elsewhere }, nil},
		"service":          {func(q *mad.REQ) { q.ServiceID++ }, []string{"REJ: invalid service id"}},
		"transport":        {func(q *mad.REQ) { q.Transport = mad.TransportRD }, []string{"REJ: invalid transport service"}},
		"our GID":          {func(q *mad.REQ) { q.Primary.RemoteGID = elsewhere }, []string{"REJ: invalid GID"}},
		"partition":        {func(q *mad.REQ) { q.PKey = 0x1234 }, []string{"REJ: invalid GID"}},
		"alternate path":   {func(q *mad.REQ) { q.Alternate.LocalGID, q.Alternate.RemoteGID = elsewhere, elsewhere }, []string{"REJ: invalid alternate GID"}},
		"MTU":              {func(q *mad.REQ) { q.PathMTU = 6 }, []string{"REJ: invalid path MTU"}},
		"nothing is wrong": {func(q *mad.REQ) {}, []string{"REJ: stale connection", "DREQ"}},
	} {
		old, r := reach(t, Established, Passive)
		r.clear()
		q := r.req()
		q.LocalCommID++
		c.spoil(q)
		r.receive(mad.AttrREQ, q)
		r.wantSent(what, c.want...)
		if ended := len(c.want) == 2; (old.State() != Established) != ended {
			t.Errorf("%s: the connection is in %v", what, old.State())
		}
	}
}

// TestC7_StaleREP: the same, when the restarted peer is the one that accepts.
func TestC7_StaleREP(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c, _ := a.connect(b)
	b.boot(DefaultLimits(), 77)
	b.listen()
	b.qpn = 0x100 // the same again
	d := a.ask(b)
	n.run(10 * latency)
	n.wantLog(`
		0.010 a sends REQ
		0.011 b hears REQ_RECEIVED
		0.011 b sends REP
		0.012 a sends REJ: stale connection
		0.012 a sends DREQ
		0.013 b hears REJ_RECEIVED
		0.013 b sends DREP
		0.014 a hears DREP_RECEIVED`)
	if c.State() != Timewait || d.State() != ReqSent {
		t.Errorf("the old connection is in %v, the new one in %v", c.State(), d.State())
	}
	n.run(10 * mad.Timeout(20)) // the REQ is repeated when the peer's TIMEWAIT is over
	if d.State() != Established {
		t.Errorf("the new connection is in %v:\n%s", d.State(), n.tail())
	}
	d.Destroy(n.now)
	n.wantEmpty()
}

// TestC7_REPOfAnotherConnection: a peer's ID names one connection.
func TestC7_REPOfAnotherConnection(t *testing.T) {
	r := newRig(t)
	r.active(Established)
	c := r.m.NewConn(r.onEvent)
	r.do(c.SendREQ(r.now, r.reqParams()))
	r.clear()
	r.receive(mad.AttrREP, r.rep(c))
	r.wantState(c, ReqSent)
	r.wantSent("a repetition in a way")
	if n := r.m.Counters().Duplicates[MsgREP]; n != 1 {
		t.Errorf("%d duplicates counted", n)
	}
}

// TestC7_Strangers: a connection's messages come from its peer's address, and
// from nowhere else.
func TestC7_Strangers(t *testing.T) {
	for s := range numStates {
		if s == Idle || s == Listen || s == SIDRReqRcvd || s == Unknown {
			continue
		}
		for on := firstMsg; on < firstTimer; on++ {
			if on == MsgREQ || on == MsgSIDRREQ {
				continue // to others they are requests of others
			}
			c, r := reach(t, s, sidesOf(stateWords[s].side)[0])
			r.clear()
			r.peer = r.peer.Next()
			tell(r, c, on)
			if c.State() != s || len(r.events)+len(r.sent) > 0 || r.m.Counters().Foreign != 1 {
				t.Errorf("%v in %v: %v, heard %v, sent %v, %d counted", on, s, c.State(), r.events, r.sent, r.m.Counters().Foreign)
			}
		}
	}
}

// TestC7_MRA: how long it makes the peer wait, whether sent at once or when the
// peer repeats its message, and all its fields.
func TestC7_MRA(t *testing.T) {
	c, r := reach(t, MRAReqRcvd, Active)
	if wait := r.m.Deadline().Sub(r.now); wait != mad.Timeout(22)+mad.Timeout(19) {
		t.Errorf("REQ: waits for %v", wait)
	}
	left := r.m.Deadline()
	r.receive(mad.AttrMRA, r.mra(c, mad.WhichREQ))
	if r.m.Deadline() != left {
		t.Error("a repeated MRA makes it wait longer")
	}
	c, r = reach(t, MRARepRcvd, Passive)
	if wait := r.m.Deadline().Sub(r.now); wait != mad.Timeout(22)+mad.Timeout(18) {
		t.Errorf("REP: waits for %v", wait)
	}
	a := r.mra(c, 3) // about a message that does not exist
	r.receive(mad.AttrMRA, a)
	if r.m.Counters().Invalid != 1 {
		t.Error("an MRA about nothing is not counted")
	}

	for s, about := range map[State]mad.Which{ReqRcvd: mad.WhichREQ, RepRcvd: mad.WhichREP} {
		for _, prepare := range []bool{false, true} {
			c, r := reach(t, s, sidesOf(stateWords[s].side)[0])
			r.clear()
			want := mad.MRA{LocalCommID: c.LocalID(), RemoteCommID: peerID, Message: about, ServiceTimeout: 21}
			copy(want.PrivateData[:], "soon")
			repetition := MsgREQ
			if s == RepRcvd {
				repetition = MsgREP
			}
			data := []byte("soon")
			if prepare {
				r.do(c.PrepareMRA(r.now, 21, data))
				clear(data) // it was copied
				r.wantSent("before the peer repeats itself")
				tell(r, c, repetition)
			} else {
				r.do(c.SendMRA(r.now, 21, data))
			}
			if got := last(r, mad.AttrMRA, &mad.MRA{}); *got != want {
				t.Errorf("%v: sent %+v, want %+v", s, got, want)
			}
			if n := r.m.Counters().Retries[mad.AttrMRA-mad.AttrREQ]; n != 0 {
				t.Errorf("%v: the first MRA is counted as repeated", s)
			}
			tell(r, c, repetition)
			r.wantSent("the peer repeats itself", "MRA", "MRA")
			if *r.sent[0] != *r.sent[1] {
				t.Errorf("%v: the second MRA is another", s)
			}
		}
	}
}

// TestC7_SlowConsumers: with MRA on both sides a set-up takes as long as the
// two need, and the REQ and REP are not repeated.
func TestC7_SlowConsumers(t *testing.T) {
	n, a, b := newNetwork(t)
	slow := func(now clock.Instant, c *Conn, ev *Event) {
		if ev.Type == REQReceived || ev.Type == REPReceived {
			n.do(c.SendMRA(now, DefaultMRATimeout, nil))
		}
	}
	a.program, b.program = slow, slow
	b.listen()
	c := a.ask(b)
	n.run(mad.Timeout(23))
	d := b.conns[0]
	n.do(d.SendREP(n.now, b.repParams()))
	n.run(mad.Timeout(23))
	n.do(c.SendRTU(n.now, nil))
	n.run(latency)
	n.wantLog(`
		 0.000 a sends REQ
		 0.001 b hears REQ_RECEIVED
		 0.001 b sends MRA
		 0.002 a hears MRA_RECEIVED
		34.360 b sends REP
		34.361 a hears REP_RECEIVED
		34.361 a sends MRA
		34.362 b hears MRA_RECEIVED
		68.719 a sends RTU
		68.720 b hears RTU_RECEIVED`)
	c.Destroy(n.now)
	d.Destroy(n.now)
	n.wantEmpty()
}
