package cm

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// TestC7_ParkedREQs: a stranger sends REQs in the name of a host for the queue pairs that the
// host uses next. The host's own REQs and REPs with these queue pairs are accepted at once.
func TestC7_ParkedREQs(t *testing.T) {
	const parked = 64
	n, a, b := newNetwork(t)
	b.listen()
	a.listen()
	n.fate = func(p *packet) []time.Duration {
		if p.kind() == mad.AttrREP && decode(&mad.REP{}, &p.mad).RemoteCommID <= parked {
			return nil // the stranger's: a would reject it
		}
		return []time.Duration{latency}
	}
	for i := range uint32(parked) {
		b.stranger(a, 1+i, a.qpn+1+ib.QPN(i))
	}
	if b.m.HalfOpen() != parked {
		t.Fatalf("%d REQs are parked", b.m.HalfOpen())
	}
	n.log.Reset()
	for by, ask := range map[string]func() *Conn{"REQ": func() *Conn { return a.ask(b) }, "REP": func() *Conn { return b.ask(a) }} {
		c := ask()
		n.run(3 * latency)
		if c.State() != Established {
			t.Errorf("%s: the connection of the honest host is in %v\n%s", by, c.State(), n.tail())
		}
	}
}

// TestC14_ParkedREQs: the same for the EE contexts of the host.
func TestC14_ParkedREQs(t *testing.T) {
	r := newRDRig(t)
	r.receive(mad.AttrREQ, r.asked(nil))
	parked := r.conn
	r.do(parked.SendREP(r.now, &REPParams{QPN: rigQPN, EECN: rigEECN + 7}))
	r.conn = nil
	r.receive(mad.AttrREQ, r.asked(nil))
	if r.conn == nil {
		t.Fatal("a REQ for an EE context in a half-open connection is refused")
	}
	c := r.ask(nil, rigEECN)
	r.receive(mad.AttrREP, r.answer(c))
	r.wantState(c, RepRcvd)
	r.clear()
	r.receive(mad.AttrREQ, r.asked(nil))
	r.wantSent("an EE context that the peer has answered with", "REJ: stale connection")
	r.consistent()
}

// TestC7_HalfOpenHasNoQP: in which states a passive connection owns the peer's queue pair.
func TestC7_HalfOpenHasNoQP(t *testing.T) {
	for s := range map[State]bool{ReqRcvd: true, MRAReqSent: true, RepSent: true} {
		c, r := reach(t, s, Passive)
		r.conn = nil
		q := r.req()
		q.LocalCommID++
		r.receive(mad.AttrREQ, q)
		if r.conn == nil || r.conn.State() != ReqRcvd {
			t.Errorf("%v: a REQ with the queue pair is refused", s)
		}
		r.wantState(c, s)
	}
}

// TestC7_SecondAnswer: the peer has sent two REQs with one queue pair, and answers both. It
// must have forgotten the first, in whichever order the answers arrive: that connection is
// examined or, without challenges, ended.
func TestC7_SecondAnswer(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, examines := range []bool{false, true} {
			r := newRig(t)
			r.listen()
			if examines {
				r.m.cfg.Challenge = func(clock.Instant, ib.QPN, func(clock.Instant, bool)) bool { return true }
			}
			var conns [2]*Conn
			for i := range conns {
				q := r.req()
				q.LocalCommID += uint32(i)
				r.receive(mad.AttrREQ, q)
				conns[i] = r.conn
				p := r.repParams()
				p.QPN += ib.QPN(i)
				r.do(r.conn.SendREP(r.now, p))
			}
			order := []*Conn{conns[0], conns[1]}
			if late {
				order = []*Conn{conns[1], conns[0]}
			}
			r.clear()
			for _, c := range order {
				r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: c.remoteID, RemoteCommID: c.localID})
			}
			r.wantEvents("both answers", RTUReceived, RTUReceived)
			r.wantSent("the second answer", "DREQ")
			older, newer := conns[0], conns[1]
			q := last(r, mad.AttrDREQ, &mad.DREQ{})
			if q.LocalCommID != older.localID || (q.RemoteQPN == 0) != examines {
				t.Errorf("late %v, examines %v: sent %+v", late, examines, q)
			}
			if examines {
				r.wantState(older, Established)
				r.clear()
				r.receive(mad.AttrDREP, &mad.DREP{LocalCommID: older.remoteID, RemoteCommID: older.localID})
				r.wantSent("the peer has forgotten it", "DREQ")
			}
			r.wantState(older, DReqSent)
			r.wantState(newer, Established)
			if r.m.qps[qpKeyOf(newer)] != newer || r.m.counters.Doubted != 0 {
				t.Errorf("late %v, examines %v: the newer one does not have the queue pair, or %d messages count as dropped", late, examines, r.m.counters.Doubted)
			}
		}
	}
}

// TestC14_SecondAnswer: the same with an EE context.
func TestC14_SecondAnswer(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newRDRig(t)
		var conns [2]*Conn
		for i := range conns {
			r.receive(mad.AttrREQ, r.asked(nil))
			conns[i] = r.conn
			r.do(r.conn.SendREP(r.now, &REPParams{QPN: rigQPN, EECN: rigEECN + ib.EECN(i)}))
		}
		order := []*Conn{conns[0], conns[1]}
		if late {
			order = []*Conn{conns[1], conns[0]}
		}
		r.clear()
		for _, c := range order {
			r.receive(mad.AttrRTU, &mad.RTU{LocalCommID: c.remoteID, RemoteCommID: c.localID})
		}
		r.wantSent("the second answer", "DREQ")
		r.wantState(conns[0], DReqSent)
		r.wantState(conns[1], Established)
		if r.m.far[conns[1].channel.far] != conns[1].channel {
			t.Errorf("late %v: the newer channel does not have the EE context", late)
		}
		r.consistent()
	}
}
