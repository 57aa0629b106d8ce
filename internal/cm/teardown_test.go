package cm

import (
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

func TestC5_Teardown(t *testing.T) {
	for _, role := range []Role{Active, Passive} {
		n, a, b := newNetwork(t)
		b.listen()
		c, d := a.connect(b)
		if role == Passive {
			a, b, c, d = b, a, d, c
			a.name, b.name = "a", "b"
		}
		n.do(c.SendDREQ(n.now, nil))
		n.wantLog(`0.010 a sends DREQ`)
		n.finish()
		n.wantLog(`
			0.011 b hears DREQ_RECEIVED
			0.011 b sends DREP
			0.012 a hears DREP_RECEIVED
			2.158 b hears TIMEWAIT_EXIT
			2.159 a hears TIMEWAIT_EXIT`)
		if c.State() != Idle || d.State() != Idle {
			t.Errorf("%v and %v", c.State(), d.State())
		}
		n.wantEmpty()
	}
}

// TestC5_Fields: DREQ names the QP of its receiver and has the transaction ID
// of its sender, DREP that of the DREQ.
func TestC5_Fields(t *testing.T) {
	for _, side := range []Role{Active, Passive} {
		c, r := reach(t, Established, side)
		r.do(c.SendDREQ(r.now, nil))
		got := last(r, mad.AttrDREQ, &mad.DREQ{})
		if want := (mad.DREQ{LocalCommID: c.LocalID(), RemoteCommID: peerID, RemoteQPN: peerQPN}); *got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if tid := r.sent[len(r.sent)-1].Header().TID; tid != 7<<32|uint64(c.LocalID()) {
			t.Errorf("transaction ID %#x", tid)
		}
		c, r = reach(t, DReqRcvd, side)
		r.do(c.SendDREP(r.now, nil))
		if got, want := last(r, mad.AttrDREP, &mad.DREP{}), (mad.DREP{LocalCommID: c.LocalID(), RemoteCommID: peerID}); *got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if tid := r.sent[len(r.sent)-1].Header().TID; tid != peerTID {
			t.Errorf("transaction ID %#x", tid)
		}
	}
}

// TestC5_TimewaitLength: it lasts one local ACK timeout of the QP, which is
// twice the packet lifetime and the acknowledge delay of the peer.
func TestC5_TimewaitLength(t *testing.T) {
	for _, row := range []struct {
		lifetime, delay uint8 // codes
		active, passive uint8
	}{
		{18, 15, 19, 19}, {16, 15, 17, 17}, {14, 15, 16, 16}, {10, 15, 15, 15}, {10, 2, 11, 11},
		{10, 20, 20, 20}, {30, 15, maxPeerWait, maxPeerWait}, // of the code 31 two hours would follow
	} {
		n, a, b := newNetwork(t)
		a.m.cfg.AckDelay, b.m.cfg.AckDelay = row.delay, row.delay
		b.listen()
		c := a.m.NewConn(a.onEvent)
		p := a.reqParams(b)
		p.Path.Lifetime = row.lifetime
		n.do(c.SendREQ(n.now, p))
		n.run(10 * latency)
		d := b.conns[0]
		n.do(c.SendDREQ(n.now, nil))
		n.run(latency)
		if d.State() != Timewait {
			t.Fatalf("lifetime %d, delay %d: %v", row.lifetime, row.delay, d.State())
		}
		passive := b.m.Deadline().Sub(n.now)
		n.run(latency)
		if c.State() != Timewait {
			t.Fatalf("lifetime %d, delay %d: %v", row.lifetime, row.delay, c.State())
		}
		active := a.m.Deadline().Sub(n.now)
		if active != mad.Timeout(row.active) || passive != mad.Timeout(row.passive) {
			t.Errorf("lifetime %d, delay %d: TIMEWAIT lasts %v and %v, want the codes %d and %d", row.lifetime, row.delay,
				active, passive, row.active, row.passive)
		}
		n.wantEmpty()
	}
}

// TestC5_SimultaneousDREQ: both send DREQ at once, both answer, both get the
// event.
func TestC5_SimultaneousDREQ(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c, d := a.connect(b)
	n.do(c.SendDREQ(n.now, nil))
	n.do(d.SendDREQ(n.now, nil))
	n.finish()
	n.wantLog(`
		0.010 a sends DREQ
		0.010 b sends DREQ
		0.011 b hears DREQ_RECEIVED
		0.011 b sends DREP
		0.011 a hears DREQ_RECEIVED
		0.011 a sends DREP
		2.158 a hears TIMEWAIT_EXIT
		2.158 b hears TIMEWAIT_EXIT`)
	n.wantEmpty()
}

// TestC5_SimultaneousDestroy: the managers do it without their consumers.
func TestC5_SimultaneousDestroy(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c, d := a.connect(b)
	c.Destroy(n.now)
	d.Destroy(n.now)
	n.finish()
	n.wantLog(`
		0.010 a sends DREQ
		0.010 b sends DREQ
		0.011 b sends DREP
		0.011 a sends DREP`)
	n.wantEmpty()
}

// TestC5_DREPOvertakes: the peer's answer comes before our consumer's own.
func TestC5_DREPOvertakes(t *testing.T) {
	c, r := reach(t, DReqSent, Active)
	r.receive(mad.AttrDREQ, r.dreq(c))
	r.wantState(c, DReqRcvd)
	r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: peerID, RemoteCommID: c.LocalID()})
	r.wantState(c, Timewait)
	r.clear()
	r.receive(mad.AttrDREQ, r.dreq(c)) // the peer waits for an answer to its own
	r.receive(mad.AttrDREQ, r.dreq(c))
	r.wantSent("an answer that was not sent before, and then repeated", "DREP", "DREP")
}

// TestC5_LostDREQAndDREP: DREQ is repeated; DREP is repeated in TIMEWAIT, and
// by a side that has forgotten the connection.
func TestC5_LostDREQAndDREP(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	c, _ := a.connect(b)
	lost := map[mad.AttrID]int{mad.AttrDREQ: 1, mad.AttrDREP: 1}
	n.fate = func(p *packet) []time.Duration {
		if lost[p.kind()]--; lost[p.kind()] >= 0 {
			return nil
		}
		return []time.Duration{latency}
	}
	n.do(c.SendDREQ(n.now, nil))
	n.finish()
	n.wantLog(`
		0.010 a sends DREQ, lost
		6.452 a sends DREQ
		6.453 b hears DREQ_RECEIVED
		6.453 b sends DREP, lost
		8.601 b hears TIMEWAIT_EXIT
		12.895 a sends DREQ
		12.896 b sends DREP
		12.897 a hears DREP_RECEIVED
		15.044 a hears TIMEWAIT_EXIT`)
	n.wantEmpty()
}

// TestC5_DREQForAnotherQP: a DREQ that does not name our QP is dropped.
func TestC5_DREQForAnotherQP(t *testing.T) {
	c, r := reach(t, Established, Active)
	r.clear()
	d := r.dreq(c)
	d.RemoteQPN++
	r.receive(mad.AttrDREQ, d)
	d = r.dreq(c)
	d.LocalCommID++ // of another connection of the peer
	r.receive(mad.AttrDREQ, d)
	r.wantState(c, Established)
	r.wantEvents("DREQs for others")
	r.wantSent("the DREQ for a connection that is not", "DREP")
	if r.m.Counters().Invalid != 1 {
		t.Errorf("%d messages counted as invalid", r.m.Counters().Invalid)
	}
	got, want := last(r, mad.AttrDREP, &mad.DREP{}), mad.DREP{LocalCommID: c.LocalID(), RemoteCommID: peerID + 1}
	if *got != want || r.sent[0].Header().TID != peerTID {
		t.Errorf("%+v, want %+v: the IDs exchanged", got, want)
	}
}

// TestC5_DestroyInEveryState: in every state the manager sends the final
// messages, the consumer gets no more events, and nothing is left.
func TestC5_DestroyInEveryState(t *testing.T) {
	for s, want := range map[State][]string{
		Idle: nil, ReqSent: {"REJ: timeout"}, MRAReqRcvd: {"REJ: timeout"}, RepRcvd: {"REJ: consumer reject"},
		MRARepSent: {"REJ: consumer reject"}, ReqRcvd: {"REJ: consumer reject"}, MRAReqSent: {"REJ: consumer reject"},
		RepSent: {"REJ: consumer reject"}, MRARepRcvd: {"REJ: consumer reject"}, Established: {"DREQ"},
		DReqSent: nil, DReqRcvd: {"DREP"}, Timewait: nil, SIDRReqSent: nil, SIDRReqRcvd: {"SIDR_REP: rejected"},
	} {
		for _, side := range sidesOf(stateWords[s].side) {
			c, r := reach(t, s, side)
			r.clear()
			c.Destroy(r.now)
			c.Destroy(r.now) // a second call changes nothing
			r.wantSent(s.String(), want...)
			if err := invariants(r.m); err != nil {
				t.Errorf("%v: %v", s, err)
			}
			r.quiet()
			r.wantEvents(s.String() + ": nobody hears")
			if err := empty(r.m); err != nil || c.State() != Idle {
				t.Errorf("%v: %v, %v", s, c.State(), err)
			}
		}
	}
}

// TestC5_DestroyInHandler: in the handler of any event of a connection, on
// either side; nothing is left on either side.
func TestC5_DestroyInHandler(t *testing.T) {
	for e := REQError; e < numEvents; e++ {
		for _, destroyer := range []string{"a", "b"} {
			n, a, b := newNetwork(t)
			b.listen()
			for _, x := range []*node{a, b} {
				if x.name != destroyer {
					continue
				}
				x.program = func(now clock.Instant, c *Conn, ev *Event) {
					if ev.Type == e {
						c.Destroy(now)
						return
					}
					x.polite(now, c, ev)
				}
			}
			c := a.ask(b)
			s := a.m.NewConn(a.onEvent)
			n.do(s.SendSIDRREQ(n.now, &SIDRREQParams{Service: service, Path: a.pathTo(b)}))
			n.run(10 * latency)
			path := a.pathTo(b)
			if c.State() == Established {
				n.do(c.SendLAP(n.now, &path, nil))
				n.run(10 * latency)
			}
			if c.State() == Established {
				n.do(c.SendDREQ(n.now, nil))
			}
			n.finish()
			for _, c := range append(a.conns, b.conns...) { // a consumer that gave up nothing
				c.Destroy(n.now)
			}
			n.wantEmpty()
		}
	}
}

// TestC5_NothingAfterDestroy: a connection that its consumer has destroyed
// still answers messages until the protocol ends it, without events.
func TestC5_NothingAfterDestroy(t *testing.T) {
	c, r := reach(t, Established, Active)
	c.Destroy(r.now)
	r.clear()
	r.receive(mad.AttrREP, r.rep(c)) // our RTU was lost
	r.receive(mad.AttrDREQ, r.dreq(c))
	r.wantState(c, Timewait)
	r.receive(mad.AttrDREQ, r.dreq(c))
	r.quiet()
	r.wantSent("answers", "DREP", "DREP")
	r.wantEvents("nobody hears")
	must.Do(t, empty(r.m))
}

// TestC5_IDsAfterTimewait: in TIMEWAIT the peer may use its QP again, but not
// its communication ID.
func TestC5_IDsAfterTimewait(t *testing.T) {
	c, r := reach(t, Timewait, Passive)
	r.clear()
	r.receive(mad.AttrREQ, r.req())
	r.wantSent("the ID of a connection in TIMEWAIT", "REJ: stale connection")
	got, want := last(r, mad.AttrREJ, &mad.REJ{}), mad.REJ{
		LocalCommID: c.LocalID(), RemoteCommID: peerID, Message: mad.WhichREQ, Reason: mad.RejStaleConnection,
	}
	if *got != want || r.sent[0].Header().TID != peerTID {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	q := r.req()
	q.LocalCommID++
	r.receive(mad.AttrREQ, q)
	r.wantEvents("the QP of a connection in TIMEWAIT", REQReceived)
	if r.conn == c || r.conn.RemoteQPN() != peerQPN {
		t.Error("no connection was made")
	}
}
