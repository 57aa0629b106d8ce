package cm

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// probeTime is how long a challenge waits for its answers.
const probeTime = 10 * time.Millisecond

// challenged makes the node challenge queue pairs: the peer answers if it still has its end
// of the connection when the probe arrives.
func (e *node) challenged() {
	e.m.cfg.Challenge = func(now clock.Instant, q ib.QPN, done func(clock.Instant, bool)) bool {
		var c *Conn
		for _, o := range e.m.local {
			if o.ep.localQPN == q && o.state == Established {
				c = o
			}
		}
		if c == nil || c.ep.transport != mad.TransportRC {
			return false
		}
		e.note(e, "challenges")
		e.later(latency, func() {
			alive := false
			for _, o := range e.nodes {
				if p := o.m.local[c.remoteID]; o.addr == c.to.Remote && p != nil && p.remoteID == c.localID && p.state == Established {
					alive = true
				}
			}
			wait := probeTime - latency
			if alive {
				wait = latency
			}
			e.later(wait, func() { done(e.now, alive) })
		})
		return true
	}
}

// stranger delivers a forged REQ of a node, for a queue pair.
func (e *node) stranger(as *node, id uint32, q ib.QPN) {
	m := (&rig{us: e.addr, peer: as.addr}).req()
	m.LocalCommID, m.LocalCAGUID, m.LocalQPN = id, as.m.cfg.GUID, q
	e.m.Receive(e.now, &gsi.Received{MAD: build(mad.AttrREQ, peerTID, m), From: gsi.Address{Local: e.addr, Remote: as.addr, QPN: 1, PKey: ib.PKeyDefault}})
}

// TestC7_ExaminationMachine walks the whole machine of examinations.
func TestC7_ExaminationMachine(t *testing.T) {
	inputs := [numExamInputs]string{"forgotten", "alive", "dead", "timer"}
	actions := [numExamActions]string{"nothing", "reject and end", "trust", "challenge", "forget"}
	var b strings.Builder
	for s := range numExamStates {
		for on := range numExamInputs {
			text := "late"
			if c := examMachine[s][on]; c.defined {
				text = fmt.Sprintf("%-15s %v", actions[c.do], c.next)
			}
			fmt.Fprintf(&b, "%-12v %-10s %s\n", s, inputs[on], text)
		}
	}
	golden.Check(t, "testdata/examination.golden", b.String())
}

// TestC7_SweepInThePeersName: a stranger tries the queue pairs of a peer in REQs with its
// GUID. The connection stays, the stranger causes no REJ, and the peer gets only a few
// messages a second.
func TestC7_SweepInThePeersName(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	b.challenged()
	c, d := a.connect(b)
	target, sent := d.ep.remoteQPN, b.m.Counters().Sent
	const rounds = 2000
	for i := range rounds {
		b.stranger(a, 0x5eed0000+uint32(i), target)
		n.run(latency)
	}
	if c.State() != Established || d.State() != Established {
		t.Fatalf("the ends are in %v and %v\n%s", c.State(), d.State(), n.tail())
	}
	k := b.m.Counters()
	if r, q := k.Sent[mad.AttrREJ-mad.AttrREQ]-sent[mad.AttrREJ-mad.AttrREQ], k.Sent[mad.AttrDREQ-mad.AttrREQ]; r != 0 || q != k.Examined || k.Examined != 2 {
		t.Errorf("in two seconds %d examinations, with %d inquiries and %d REJs", k.Examined, q, r)
	}
	if k.Doubted != rounds {
		t.Errorf("%d of %d REQs are counted", k.Doubted, rounds)
	}
	n.run(trust)
	if d.exam != nil || b.m.exams.Len() != 0 || b.m.Deadline() != clock.Never {
		t.Error("the examination is not over")
	}
	c.Destroy(n.now)
	n.wantEmpty()
}

// TestC7_RestartedPeer: a peer that has forgotten its connection says so when it is
// challenged: its REQ is rejected after one exchange, and the next one is accepted.
func TestC7_RestartedPeer(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	b.challenged()
	_, d := a.connect(b)
	a.boot(DefaultLimits(), 77)
	a.qpn = 0x100 // the same again
	a.ask(b)
	n.run(10 * latency)
	n.wantLog(`
		0.010 a sends REQ
		0.011 b challenges
		0.011 b sends DREQ
		0.012 a sends DREP
		0.013 b sends REJ: stale connection
		0.013 b sends DREQ
		0.014 a hears REJ_RECEIVED
		0.014 a sends DREP
		0.015 b hears DREP_RECEIVED`)
	if d.State() != Timewait {
		t.Errorf("the old connection is in %v", d.State())
	}
	a.qpn = 0x100
	c, start := a.ask(b), n.now
	n.run(3 * latency)
	if c.State() != Established {
		t.Errorf("%v later the new connection is in %v:\n%s", n.now.Sub(start), c.State(), n.tail())
	}
	// With another queue pair no challenge is needed.
	a.boot(DefaultLimits(), 78)
	a.qpn = 0x200
	c, start = a.ask(b), n.now
	n.run(3 * latency)
	if c.State() != Established || b.m.Counters().Examined != 1 {
		t.Errorf("%v later the connection of another queue pair is in %v", n.now.Sub(start), c.State())
	}
}

// TestC7_RestartedPeerAccepts: the same where the peer's REP names the queue pair.
func TestC7_RestartedPeerAccepts(t *testing.T) {
	n, a, b := newNetwork(t)
	b.listen()
	a.challenged()
	c, _ := a.connect(b)
	b.boot(DefaultLimits(), 77)
	b.listen()
	b.qpn = 0x100
	d := a.ask(b)
	n.run(10 * latency)
	if c.State() != Timewait || d.State() != ReqSent || a.m.Counters().Examined != 1 {
		t.Errorf("the old connection is in %v, the new one in %v\n%s", c.State(), d.State(), n.tail())
	}
	n.wantLog(`
		0.010 a sends REQ
		0.011 b hears REQ_RECEIVED
		0.011 b sends REP
		0.012 a challenges
		0.012 a sends DREQ
		0.013 b sends DREP
		0.014 a sends REJ: stale connection
		0.014 a sends DREQ
		0.015 b hears REJ_RECEIVED
		0.015 b sends DREP
		0.016 a hears DREP_RECEIVED`)
}

// doubtful is a rig with an established connection whose peer may have forgotten it, and the
// challenges in progress.
type doubtful struct {
	*rig
	c     *Conn
	asked []func(now clock.Instant, alive bool)
	can   bool
}

func newDoubtful(t *testing.T, can bool) *doubtful {
	d := &doubtful{rig: newRig(t), can: can}
	d.listen()
	d.m.cfg.Challenge = func(_ clock.Instant, q ib.QPN, done func(clock.Instant, bool)) bool {
		if q != rigQPN {
			t.Errorf("QP %v is challenged", q)
		}
		if d.can {
			d.asked = append(d.asked, done)
		}
		return d.can
	}
	d.c = d.passive(Established)
	d.clear()
	d.receive(mad.AttrREQ, d.stale(1))
	return d
}

// stale is a REQ with the queue pair of the connection.
func (d *doubtful) stale(n uint32) *mad.REQ {
	q := d.req()
	q.LocalCommID += n
	return q
}

// silence passes the time of all challenges and inquiries.
func (d *doubtful) silence() {
	d.t.Helper()
	for range inquiries {
		d.fire()
	}
}

// forgets delivers the DREP of a peer that does not know the connection.
func (d *doubtful) forgets() {
	d.receive(mad.AttrDREP, &mad.DREP{LocalCommID: peerID, RemoteCommID: d.c.LocalID()})
}

func (d *doubtful) wantEnd(why string, sent ...string) {
	d.t.Helper()
	d.wantSent(why, append(sent, "REJ: stale connection", "DREQ")...)
	d.wantState(d.c, DReqSent)
	d.wantOver(why)
}

func (d *doubtful) wantOver(why string) {
	d.t.Helper()
	if d.c.exam != nil || d.m.exams.Len() != 0 {
		d.t.Errorf("%s: the examination goes on", why)
	}
}

// TestC7_Outcomes: the outcomes of a challenge and an inquiry, in all orders.
func TestC7_Outcomes(t *testing.T) {
	inquiry := []string{"DREQ", "DREQ", "DREQ"}
	t.Run("the peer has forgotten", func(t *testing.T) {
		d := newDoubtful(t, true)
		q := last(d.rig, mad.AttrDREQ, &mad.DREQ{})
		if want := (mad.DREQ{LocalCommID: d.c.LocalID(), RemoteCommID: peerID}); *q != want {
			t.Errorf("the inquiry is %+v", q)
		}
		d.forgets()
		d.wantEnd("it says so", "DREQ")
		if j := decode(&mad.REJ{}, d.sent[1]); j.RemoteCommID != peerID+1 || j.Message != mad.WhichREQ {
			t.Errorf("rejected is %+v", j)
		}
		d.asked[0](d.now, true) // late
		d.wantState(d.c, DReqSent)
	})
	t.Run("the peer is dead, and so is the one after it", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.asked[0](d.now, false)
		d.wantState(d.c, Established)
		d.silence()
		if d.now != clock.Instant(inquiries*inquiryWait) || len(d.asked) != 2 {
			t.Fatalf("at %v there are %d challenges", d.now, len(d.asked))
		}
		d.asked[0](d.now, false) // again: late
		d.wantState(d.c, Established)
		d.asked[1](d.now, false)
		d.wantEnd("both challenges failed", inquiry...)
	})
	t.Run("the peer was held up", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.asked[0](d.now, false)
		d.silence()
		d.asked[1](d.now, true)
		d.wantSent("it lives", inquiry...)
		d.wantState(d.c, Established)
	})
	t.Run("the challenge takes longer than the inquiry", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.silence()
		if len(d.asked) != 1 || d.c.exam.state != examLast {
			t.Fatalf("%d challenges, %v", len(d.asked), d.c.exam.state)
		}
		d.asked[0](d.now, false)
		d.wantEnd("it failed", inquiry...)
	})
	t.Run("the outcome never comes", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.silence()
		d.fire()
		d.wantState(d.c, Established)
		if d.c.exam.state != examLiving || d.now != clock.Instant(inquiries*inquiryWait+trust) {
			t.Errorf("%v at %v", d.c.exam.state, d.now)
		}
		d.quiet()
		d.wantOver("no outcome")
	})
}

// TestC7_OutcomesWithoutChallenge: the outcomes of an inquiry where queue pairs cannot
// be challenged, and messages that are no outcome.
func TestC7_OutcomesWithoutChallenge(t *testing.T) {
	t.Run("the queue pair cannot be challenged", func(t *testing.T) {
		d := newDoubtful(t, false)
		d.silence()
		d.wantSent("nobody answers", "DREQ", "DREQ", "DREQ")
		d.wantState(d.c, Established)
		d.quiet()
		d.wantOver("silence")
		d.receive(mad.AttrREQ, d.stale(2))
		d.clear()
		d.forgets()
		d.wantEnd("the peer has forgotten")
	})
	t.Run("the queue pair cannot be challenged any more", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.asked[0](d.now, false)
		d.can = false
		d.silence()
		d.wantState(d.c, Established)
		d.quiet()
		d.wantOver("no second challenge")
	})
	t.Run("the connection ends meanwhile", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.receive(mad.AttrDREQ, d.dreq(d.c))
		d.wantOver("the peer parts")
		d.asked[0](d.now, false)
		d.forgets()
		d.wantSent("the peer parts", "DREQ")
	})
	t.Run("a forged DREP", func(t *testing.T) {
		d := newDoubtful(t, true)
		d.receive(mad.AttrDREP, &mad.DREP{LocalCommID: peerID + 1, RemoteCommID: d.c.LocalID()})
		d.receiveFrom(d.peer.Next(), mad.AttrDREP, &mad.DREP{LocalCommID: peerID, RemoteCommID: d.c.LocalID()})
		d.wantState(d.c, Established)
		d.wantSent("neither is the peer's", "DREQ")
	})
}

// TestC7_ExaminationsAreBounded: a connection has one examination at a time, and a manager a
// bounded number; further messages are dropped and counted.
func TestC7_ExaminationsAreBounded(t *testing.T) {
	d := newDoubtful(t, true)
	for n := range uint32(10) {
		d.receive(mad.AttrREQ, d.stale(n+2))
	}
	d.wantSent("one inquiry", "DREQ")
	if k := d.m.Counters(); len(d.asked) != 1 || k.Examined != 1 || k.Doubted != 10 {
		t.Errorf("%d challenges, %d examinations, %d REQs dropped", len(d.asked), k.Examined, k.Doubted)
	}
	d.can = false
	var conns []*Conn
	for i := range maxExaminations + 5 {
		from := netip.AddrFrom4([4]byte{10, 3, byte(i >> 8), byte(i)})
		q := d.reqN(from, 1)
		d.receiveFrom(from, mad.AttrREQ, q)
		c := d.conn
		d.do(c.SendREP(d.now, d.repParams()))
		d.receiveFrom(from, mad.AttrRTU, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: c.localID})
		q.LocalCommID++
		d.receiveFrom(from, mad.AttrREQ, q)
		conns = append(conns, c)
		d.clear()
	}
	k := d.m.Counters()
	if d.m.exams.Len() != maxExaminations || k.Examined != maxExaminations || k.Doubted != 16 {
		t.Errorf("%d examinations at a time, %d in all, %d REQs dropped", d.m.exams.Len(), k.Examined, k.Doubted)
	}
	for _, c := range conns {
		if c.State() != Established {
			t.Fatalf("a connection is in %v", c.State())
		}
		c.Destroy(d.now)
	}
	d.c.Destroy(d.now)
	d.quiet()
	must.Do(t, empty(d.m))
}

// TestC7_NotEstablishedIsStaleAtOnce: in any other state after the peer's answer no
// examination is needed, and the message is rejected at once.
func TestC7_NotEstablishedIsStaleAtOnce(t *testing.T) {
	for s, side := range map[State]Role{MRARepRcvd: Passive, RepRcvd: Active, DReqSent: Active, DReqRcvd: Passive} {
		c, r := reach(t, s, side)
		r.m.cfg.Challenge = func(clock.Instant, ib.QPN, func(clock.Instant, bool)) bool {
			t.Errorf("%v: challenged", s)
			return true
		}
		if len(r.m.listeners) == 0 {
			r.listen()
		}
		r.clear()
		q := r.req()
		q.LocalCommID++
		r.receive(mad.AttrREQ, q)
		r.wantSent(s.String(), "REJ: stale connection")
		r.wantState(c, s)
	}
}

// TestC7_C14_RestartedPeerOfAChannel: a REQ that names the peer's EE context of a channel has
// one connection of the channel examined. All of them stay until the peer says that it does
// not know that one, and then all end.
func TestC7_C14_RestartedPeerOfAChannel(t *testing.T) {
	for _, by := range []string{"REQ", "REP"} {
		r := newRDRig(t)
		r.m.cfg.Challenge = func(clock.Instant, ib.QPN, func(clock.Instant, bool)) bool {
			t.Error("a queue pair of RD is challenged")
			return false
		}
		first := r.began(nil)
		second := r.began(first.Channel())
		r.clear()
		stale := func() { r.receive(mad.AttrREQ, r.asked(nil)) }
		want := []string{"DREQ"}
		if by == "REP" {
			c := r.ask(nil, rigEECN+1)
			stale = func() { r.receive(mad.AttrREP, r.answer(c)) }
		}
		r.clear()
		stale()
		stale()
		r.wantSent("a channel that the peer may have forgotten", want...)
		r.wantState(first, Established)
		r.wantState(second, Established)
		q := last(r.rig, mad.AttrDREQ, &mad.DREQ{})
		r.clear()
		r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: q.RemoteCommID, RemoteCommID: q.LocalCommID})
		r.wantSent("the peer has forgotten one", "REJ: stale connection", "DREQ", "DREQ")
		r.wantState(first, DReqSent)
		r.wantState(second, DReqSent)
		r.consistent()
	}
}
