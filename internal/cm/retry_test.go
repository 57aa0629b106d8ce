package cm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestC6_Retransmission: an unanswered message is repeated, identical to the
// byte, at equal intervals and as often as the parameters say; then the
// consumer gets the failure.
func TestC6_Retransmission(t *testing.T) {
	response, round := mad.Timeout(20), 2*mad.Timeout(18)
	for _, row := range []struct {
		what     string
		reach    func(r *rig) *Conn
		kind     mad.AttrID
		count    int
		interval time.Duration
		event    EventType
		after    State
		withheld int // repetitions at the end that the allowance does not cover
	}{
		{"REQ", func(r *rig) *Conn { return r.active(ReqSent) }, mad.AttrREQ, 16, round + response, REQError, Idle, 0},
		{"REQ after MRA", func(r *rig) *Conn {
			c := r.active(MRAReqRcvd)
			r.now = r.m.Deadline()
			r.clear()
			r.m.Advance(r.now) // the time of the MRA is over: the first of the repetitions
			return c
		}, mad.AttrREQ, 15, round + response, REQError, Idle, 0},
		{"REP", func(r *rig) *Conn { return r.passive(RepSent) }, mad.AttrREP, 4, mad.Timeout(19), REPError, Idle, 1},
		{"DREQ of the active side", func(r *rig) *Conn { return r.active(DReqSent) }, mad.AttrDREQ, 16, round + response, DREQError, Timewait, 0},
		{"DREQ of the passive side", func(r *rig) *Conn { return r.passive(DReqSent) }, mad.AttrDREQ, 4, mad.Timeout(19), DREQError, Timewait, 0},
		{"SIDR_REQ", func(r *rig) *Conn { return r.active(SIDRReqSent) }, mad.AttrSIDRREQ, 16, response, SIDRREQError, Idle, 0},
		{"LAP", func(r *rig) *Conn { return r.loading(LAPSent) }, mad.AttrLAP, 16, round + response, LAPError, Established, 0},
	} {
		t.Run(row.what, func(t *testing.T) {
			r := newRig(t)
			r.listen()
			c := row.reach(r)
			first := r.sent[len(r.sent)-1]
			r.clear()
			for i := 1; i < row.count; i++ {
				before := r.now
				r.fire()
				if n := min(i, row.count-1-row.withheld); len(r.sent) != n || *r.sent[n-1] != *first || r.now.Sub(before) != row.interval {
					t.Fatalf("repetition %d after %v: sent %v, want %v after %v", i, r.now.Sub(before), r.kinds(), row.kind, row.interval)
				}
				must.Do(t, invariants(r.m))
			}
			r.wantEvents("while it is repeated")
			r.fire()
			r.wantEvents("in vain", row.event)
			r.wantState(c, row.after)
			if n := r.m.Counters().Retries[row.kind-mad.AttrREQ]; int(n) < row.count-1-row.withheld {
				t.Errorf("%d repetitions counted", n)
			}
		})
	}
}

// TestC6_GivingUpIsTold: a side that gives up a REQ or a REP sends a REJ with
// its node's GUID, so that the peer need not wait (as Linux does when a
// consumer gives up).
func TestC6_GivingUpIsTold(t *testing.T) {
	r := newRig(t)
	c := r.active(ReqSent)
	r.quiet()
	got := last(r, mad.AttrREJ, &mad.REJ{})
	want := mad.REJ{LocalCommID: c.LocalID(), Message: mad.WhichOther, Reason: mad.RejTimeout, InfoLength: 8}
	copy(want.Info[:], "\x02\x00\x00\x00\x00\x00\x00\x01")
	if *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	r = newRig(t)
	r.listen()
	c = r.passive(RepSent)
	r.receive(mad.AttrREQ, r.req()) // pays for the last word, too
	r.quiet()
	got = last(r, mad.AttrREJ, &mad.REJ{})
	want.LocalCommID, want.RemoteCommID = c.LocalID(), peerID
	if *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestC6_FullQueueIsLoss: a message for which QP1 has no room is sent at the
// next repetition.
func TestC6_FullQueueIsLoss(t *testing.T) {
	r := newRig(t)
	r.unsent = true
	c := r.active(ReqSent)
	r.fire()
	r.wantSent("no room")
	r.unsent = false
	r.fire()
	r.wantSent("room", "REQ")
	if n := r.m.Counters(); n.Unsent != 2 || n.Sent[0] != 1 {
		t.Errorf("%d unsent, %d sent", n.Unsent, n.Sent[0])
	}
	r.wantState(c, ReqSent)
}

// TestC6_PeersTimesAreBounded: a peer that asks us to wait for hours between
// repetitions gets the time of Linux's longest MRA, and one that asks us not to
// wait, in repetitions or in TIMEWAIT, about a millisecond.
func TestC6_PeersTimesAreBounded(t *testing.T) {
	r := newRig(t)
	r.listen()
	q := r.req()
	q.LocalResponseTimeout = 31
	r.receive(mad.AttrREQ, q)
	r.do(r.conn.SendREP(r.now, r.repParams()))
	if d := r.m.Deadline().Sub(r.now); d != mad.Timeout(maxPeerWait) {
		t.Errorf("REP is repeated after %v", d)
	}
	a := r.mra(r.conn, mad.WhichREP)
	a.ServiceTimeout = 31
	r.receive(mad.AttrMRA, a)
	if d := r.m.Deadline().Sub(r.now); d > 2*mad.Timeout(maxPeerWait) {
		t.Errorf("MRA makes us wait for %v", d)
	}
	r = newRig(t)
	r.listen()
	q = r.req()
	q.LocalResponseTimeout, q.Primary.LocalAckTimeout = 0, 0
	r.receive(mad.AttrREQ, q)
	r.do(r.conn.SendREP(r.now, r.repParams()))
	if d := r.m.Deadline().Sub(r.now); d != mad.Timeout(minPeerWait) {
		t.Errorf("REP is repeated after %v", d)
	}
	r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: peerID, RemoteCommID: r.conn.LocalID()})
	r.end(r.conn, Timewait)
	if d := r.m.Deadline().Sub(r.now); d != mad.Timeout(minPeerWait) {
		t.Errorf("TIMEWAIT lasts %v", d)
	}
}

// life runs a whole life of a connection, with a resolution and an alternate
// path, and returns the events of the two consumers.
func life(n *network, a, b *node) [2][]EventType {
	b.listen()
	b.program = func(now clock.Instant, c *Conn, ev *Event) {
		switch ev.Type {
		case REQReceived: // takes a while
			n.do(c.SendMRA(now, 19, nil))
		case LAPReceived:
			n.do(c.SendMRA(now, 19, nil))
		default:
			b.polite(now, c, ev)
		}
	}
	s := a.m.NewConn(a.onEvent)
	n.do(s.SendSIDRREQ(n.now, &SIDRREQParams{Service: service, Path: a.pathTo(b)}))
	c := a.ask(b)
	n.run(time.Second)
	d := b.conns[len(b.conns)-1]
	n.do(d.SendREP(n.now, b.repParams()))
	n.run(time.Second)
	path := a.pathTo(b)
	n.do(c.SendLAP(n.now, &path, nil))
	n.run(time.Second)
	n.do(d.SendAPR(n.now, &APRParams{}))
	n.run(time.Second)
	n.do(d.SendDREQ(n.now, nil))
	n.finish()
	n.wantEmpty()
	return [2][]EventType{a.heard, b.heard}
}

// TestC6_Duplicates: a network that delivers each packet twice or more, at once
// or later, does not change the consumers' events.
func TestC6_Duplicates(t *testing.T) {
	n, a, b := newNetwork(t)
	want := life(n, a, b)
	for copies := 2; copies <= 4; copies++ {
		for _, gap := range []time.Duration{0, latency / 2, 3 * latency, 100 * latency} {
			t.Run(fmt.Sprint(copies, gap), func(t *testing.T) {
				n, a, b := newNetwork(t)
				n.fate = func(p *packet) []time.Duration {
					if p.kind() == mad.AttrSIDRREQ { // its answer ends it: the next is a new one
						return []time.Duration{latency}
					}
					var d []time.Duration
					for i := range copies {
						d = append(d, latency+time.Duration(i)*gap)
					}
					return d
				}
				if got := life(n, a, b); !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
					t.Errorf("heard %v\nwant %v\n%s", got, want, n.tail())
				}
			})
		}
	}
}

// TestC6_EachMessageLostOnce: whichever packet of a connection is lost, an
// original or a repetition, both ends have the same result.
func TestC6_EachMessageLostOnce(t *testing.T) {
	n, a, b := newNetwork(t)
	life(n, a, b)
	for lost := 1; lost <= n.sent; lost++ {
		n, a, b := newNetwork(t)
		b.listen()
		n.fate = func(p *packet) []time.Duration {
			if p.n == lost {
				return nil
			}
			return []time.Duration{latency}
		}
		s := a.m.NewConn(a.onEvent)
		n.do(s.SendSIDRREQ(n.now, &SIDRREQParams{Service: service, Path: a.pathTo(b)}))
		c := a.ask(b)
		n.run(time.Minute)
		i := slices.IndexFunc(b.conns, func(d *Conn) bool { return d.RemoteID() == c.LocalID() })
		d := b.conns[i]
		if c.State() != Established || d.State() != Established || s.State() != Idle || !slices.Contains(a.heard, SIDRREPReceived) {
			t.Fatalf("packet %d lost: %v and %v\n%s", lost, c.State(), d.State(), n.tail())
		}
		path := a.pathTo(b)
		n.do(c.SendLAP(n.now, &path, nil))
		n.run(time.Minute)
		if c.LAPState() != LAPIdle || c.Alternate() != d.Alternate() || c.Alternate() == (mad.Path{}) {
			t.Fatalf("packet %d lost: %v, %+v\n%s", lost, c.LAPState(), c.Alternate(), n.tail())
		}
		n.do(c.SendDREQ(n.now, nil))
		n.wantEmpty()
	}
}

// TestRepetitionsSpeedup repeats an unanswered REQ faster after the first time, and gives up sooner.
func TestRepetitionsSpeedup(t *testing.T) {
	r := newRig(t)
	r.m.cfg.RetrySpeedup = 50
	c := r.active(ReqSent)
	interval := 2*mad.Timeout(18) + mad.Timeout(20)
	for i := range 16 {
		before := r.now
		r.fire()
		want := interval
		if i > 0 {
			want /= 50
		}
		if got := r.now.Sub(before); got != want {
			t.Errorf("wait %d takes %v, want %v", i, got, want)
		}
	}
	r.wantEvents("in vain", REQError)
	r.wantState(c, Idle)
}
