package cm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// TestC6_OneREQDrawsThree: a REQ whose sender never answers, and which asks for the fastest
// and most repetitions, gets at most three messages; the connection is given up when it
// would be with all repetitions.
func TestC6_OneREQDrawsThree(t *testing.T) {
	r := newRig(t)
	r.listen()
	q := r.req()
	q.LocalResponseTimeout, q.MaxCMRetries = 1, 15
	r.receive(mad.AttrREQ, q)
	r.do(r.conn.SendREP(r.now, r.repParams()))
	r.quiet()
	r.wantSent("one REQ in another host's name", "REP", "REP", "REP")
	r.wantEvents("it ends", REQReceived, REPError)
	if end := clock.Instant(16 * peerWait(1)); r.now != end || r.m.Counters().Withheld != 14 {
		t.Errorf("it ends at %v, want %v; %d messages withheld, want 13 REPs and the REJ", r.now, end, r.m.Counters().Withheld)
	}
}

// TestC6_EachREQEarnsAREP: a peer that gets no REP repeats its REQ, and each REQ gets a REP
// at once, and allows three messages.
func TestC6_EachREQEarnsAREP(t *testing.T) {
	r := newRig(t)
	r.listen()
	q := r.req()
	q.LocalResponseTimeout, q.MaxCMRetries = 24, 15
	r.receive(mad.AttrREQ, q)
	c := r.conn
	r.do(c.SendREP(r.now, r.repParams()))
	due := r.m.Deadline()
	for n := range 30 {
		r.clear()
		r.now = r.now.Add(time.Second)
		r.receive(mad.AttrREQ, q)
		r.wantSent("REQ again", "REP")
		if c.allowance.left != min(2*uint8(n+1)+2, maxAllowance-1) {
			t.Fatalf("REQ %d: %d more may be sent", n+2, c.allowance.left)
		}
		if r.m.Deadline() != due {
			t.Fatalf("REQ %d moves the timer from %v to %v", n+2, due, r.m.Deadline())
		}
	}
	if n := r.m.Counters(); n.Retries[mad.AttrREP-mad.AttrREQ] != 30 || n.Duplicates[MsgREQ] != 30 {
		t.Errorf("%d REPs count as repeated, %d REQs", n.Retries[mad.AttrREP-mad.AttrREQ], n.Duplicates[MsgREQ])
	}
}

// TestC6_AnAnswerEndsTheBound: a peer that names our ID gets all repetitions
// that it asked for.
func TestC6_AnAnswerEndsTheBound(t *testing.T) {
	r := newRig(t)
	r.listen()
	q := r.req()
	q.MaxCMRetries = 15
	r.receive(mad.AttrREQ, q)
	r.do(r.conn.SendREP(r.now, r.repParams()))
	wrong := r.mra(r.conn, mad.WhichREP)
	wrong.RemoteCommID++
	r.receive(mad.AttrMRA, wrong)
	if !r.conn.allowance.limited {
		t.Error("a message with another ID counts as an answer")
	}
	r.receive(mad.AttrMRA, r.mra(r.conn, mad.WhichREP))
	r.quiet()
	if n := r.m.Counters(); n.Sent[mad.AttrREP-mad.AttrREQ] != 16 || n.Sent[mad.AttrREJ-mad.AttrREQ] != 1 || n.Withheld != 0 {
		t.Errorf("%v sent, %d withheld", r.kinds(), n.Withheld)
	}
}

// TestC6_DataEndsTheBound: data in place of RTU shows that REP arrived; later messages are
// repeated as often as the peer asked for.
func TestC6_DataEndsTheBound(t *testing.T) {
	r := newRig(t)
	r.listen()
	c := r.passive(RepSent)
	r.do(c.Establish(r.now))
	r.clear()
	r.do(c.SendDREQ(r.now, nil))
	r.quiet()
	r.wantSent("nobody answers", "DREQ", "DREQ", "DREQ", "DREQ")
}

// TestC6_NothingIsReflected: an address that never names one of our IDs gets at most three
// messages for each of its own, whatever it sends and whatever consumers do.
func TestC6_NothingIsReflected(t *testing.T) {
	const seed, runs = 26, 3000
	most := 0.0
	for run := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, run))
		r := newRig(t)
		r.listen()
		var conns []*Conn
		came := 0
		check := func() {
			t.Helper()
			if len(r.sent) > 3*came {
				t.Fatalf("seed %d, run %d: %d messages came, %d were sent: %v", seed, run, came, len(r.sent), r.kinds())
			}
			if came > 0 {
				most = max(most, float64(len(r.sent))/float64(came))
			}
		}
		for range 1 + rng.IntN(12) {
			switch rng.IntN(4) {
			case 0, 1:
				stranger(r, rng)
				came++
				if r.conn != nil {
					conns = append(conns, r.conn)
				}
			case 2:
				if len(conns) > 0 {
					anyCall(r, rng, conns[rng.IntN(len(conns))])
				}
			default:
				if r.m.Deadline() != clock.Never {
					r.fire()
				}
			}
			check()
		}
		for r.m.Deadline() != clock.Never {
			r.fire()
			check()
		}
		for _, c := range conns {
			c.Destroy(r.now)
		}
		r.quiet()
		check()
		if err := empty(r.m); err != nil {
			t.Fatalf("seed %d, run %d: %v", seed, run, err)
		}
	}
	if most != 3 {
		t.Errorf("the bound is 3, and %v is all that was reached", most)
	}
}

// stranger delivers a message of a sender that reads none of ours.
func stranger(r *rig, rng *rand.Rand) {
	id := uint32(1 + rng.IntN(3))
	nobody := &Conn{localID: rng.Uint32()}
	switch rng.IntN(8) {
	case 0:
		q := r.sidrReq()
		q.RequestID = id
		r.receive(mad.AttrSIDRREQ, q)
	case 1:
		r.receive(mad.AttrREP, r.rep(nobody))
	case 2:
		r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: peerID, RemoteCommID: nobody.localID})
	case 3:
		r.receive(mad.AttrDREQ, r.dreq(nobody))
	case 4:
		r.receive(mad.AttrLAP, r.lap(nobody))
	default:
		q := r.req()
		q.LocalCommID, q.LocalQPN = id, peerQPN+1
		q.LocalResponseTimeout, q.MaxCMRetries = uint8(rng.IntN(32)), uint8(rng.IntN(16))
		q.ServiceID += mad.ServiceID(rng.IntN(5) / 4)
		r.receive(mad.AttrREQ, q)
	}
}

// anyCall has a consumer make a call that a request allows, or not.
func anyCall(r *rig, rng *rand.Rand, c *Conn) {
	switch rng.IntN(7) {
	case 0, 1:
		_ = c.SendREP(r.now, r.repParams())
	case 2:
		_ = c.SendREJ(r.now, &REJParams{Reason: mad.RejConsumer})
	case 3:
		_ = c.SendMRA(r.now, 20, nil)
	case 4:
		_ = c.PrepareMRA(r.now, 20, nil)
	case 5:
		_ = c.SendSIDRREP(r.now, &SIDRREPParams{})
	default:
		c.Destroy(r.now)
	}
}
