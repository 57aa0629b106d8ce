package hca

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// injectCap is enough for a few requests.
var injectCap = ib.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}

// statuses returns the completions of side i by status, in order.
func (r *rig) statuses(i int) (s []ib.WCStatus) {
	var wc [64]ib.WC
	for _, c := range wc[:r.side[i].cq.Poll(wc[:])] {
		s = append(s, c.Status)
	}
	return s
}

// TestInject answers the second packet of a WRITE of three otherwise than
// by executing it, once, with each answer that there is.
func TestInject(t *testing.T) {
	for _, c := range []struct {
		answer roce.Syndrome
		status ib.WCStatus
		event  ib.EventType // at the responder, if the status is an error
	}{
		{roce.NAKSequence, ib.WCSuccess, 0},
		{roce.RNRNAK(1), ib.WCSuccess, 0},
		{roce.NAKInvalidRequest, ib.WCRemInvReqErr, ib.EventQPReqErr},
		{roce.NAKRemoteAccess, ib.WCRemAccessErr, ib.EventQPAccessErr},
		{roce.NAKRemoteOperational, ib.WCRemOpErr, ib.EventQPReqErr},
	} {
		r := newRig(t, ib.RC, injectCap).connect(ib.MTU1024)
		asked := 0
		r.side[1].hca.Inject(func(q *qp.QP, p *qp.Packet) roce.Syndrome {
			if q != r.side[1].qp || p.TakesReceive() {
				t.Errorf("asked about %v of QP %v", p.BTH.Opcode, q.Num())
			}
			if asked++; asked == 2 {
				return c.answer
			}
			return 0
		})
		for i := range r.side[0].buf[:3072] {
			r.side[0].buf[i] = byte(i % 251)
		}
		r.post(0, ib.SendWR{
			Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{r.side[0].sge(0, 3072)},
			RemoteAddr: r.side[1].mr.Addr(), RKey: r.side[1].mr.RKey(),
		})
		r.run(time.Second, func() bool { return r.side[0].cq.Pending() > 0 })
		if s := r.statuses(0); len(s) == 0 || s[0] != c.status {
			t.Fatalf("%v: the WRITE completes with %v, want %v", c.answer, s, c.status)
		}
		events := r.side[1].events
		switch {
		case c.status == ib.WCSuccess && (len(events) != 0 || string(r.side[1].buf[:3072]) != string(r.side[0].buf[:3072])):
			t.Errorf("%v: the events are %v, or the data is wrong", c.answer, events)
		case c.status != ib.WCSuccess && (len(events) != 2 || events[0].Type != c.event || events[1].Type != ib.EventQPFatal):
			t.Errorf("%v: the responder's events are %v", c.answer, events)
		}
	}
}

// TestForce makes the moves that the device makes by itself, and is refused
// those that it never makes.
func TestForce(t *testing.T) {
	for _, c := range []struct {
		typ      ib.QPType
		from, to ib.QPState
		ok       bool
	}{
		{ib.RC, ib.RESET, ib.ERR, false}, {ib.RC, ib.INIT, ib.ERR, true}, {ib.RC, ib.RTS, ib.ERR, true},
		{ib.RC, ib.RTS, ib.SQE, false}, {ib.UC, ib.RTS, ib.SQE, true}, {ib.UD, ib.RTS, ib.SQE, true},
		{ib.UC, ib.RTR, ib.SQE, false}, {ib.UC, ib.RTS, ib.RTR, false}, {ib.UD, ib.RTR, ib.ERR, true},
	} {
		r := newRig(t, c.typ, injectCap)
		q := r.side[0].qp
		if c.from != ib.RESET {
			r.walk(0, r.attrs(0, ib.MTU1024), c.from)
			r.recv(0, ib.RecvWR{})
		}
		if c.from == ib.RTS && c.typ == ib.RC {
			if _, err := q.PostSend(ib.SendWR{Opcode: ib.WRSend}, ib.SendWR{Opcode: ib.WRSend}); err != nil {
				t.Fatal(err)
			}
		}
		err := q.Force(r.now, c.to)
		if (err == nil) != c.ok || c.ok && q.State() != c.to || !c.ok && q.State() != c.from {
			t.Errorf("%v from %v to %v: %v, now in %v", c.typ, c.from, c.to, err, q.State())
			continue
		}
		want := 0
		if c.ok && c.to == ib.ERR {
			want = 1 // the receive
			if c.from == ib.RTS {
				want = 3
			}
		}
		s := r.statuses(0)
		for _, status := range s {
			if status != ib.WCWRFlushErr {
				t.Errorf("%v from %v to %v: completed with %v", c.typ, c.from, c.to, status)
			}
		}
		if events := r.side[0].events; len(s) != want || (len(events) == 1) != (want > 0) {
			t.Errorf("%v from %v to %v: %d flushed, want %d; events %v", c.typ, c.from, c.to, len(s), want, events)
		}
	}
}

// TestOverflowCQ makes a CQ fail: CQ_ERR first, then its QP; it does so once,
// and what is flushed then is counted as lost.
func TestOverflowCQ(t *testing.T) {
	r := newRig(t, ib.RC, injectCap).connect(ib.MTU1024)
	s := r.side[0]
	r.recv(0, ib.RecvWR{}, ib.RecvWR{})
	if !s.hca.OverflowCQ(r.now, s.cq) || s.hca.OverflowCQ(r.now, s.cq) {
		t.Error("a CQ fails once")
	}
	if len(s.events) != 2 || s.events[0].Type != ib.EventCQErr || s.events[0].CQ != s.cq || s.events[1].Type != ib.EventQPFatal {
		t.Errorf("the events are %v", s.events)
	}
	if n := s.hca.Counters().CQEOverflow; n != 2 || !s.cq.Failed() || s.qp.State() != ib.ERR {
		t.Errorf("%d completions lost, failed %t, the QP is in %v", n, s.cq.Failed(), s.qp.State())
	}
	s.hca.Raise(qp.Event{Type: ib.EventPortErr, Port: 1})
	if e := s.events[len(s.events)-1]; e.Type != ib.EventPortErr || e.Port != 1 {
		t.Errorf("the event raised is %v", e)
	}
	n := 0
	s.hca.EachQP(func(q *qp.QP) {
		if n++; q != s.qp || q.SendCQ() != s.cq || q.SRQ() != nil {
			t.Errorf("QP %v is none of this adapter", q.Num())
		}
	})
	if n != 1 {
		t.Errorf("%d QPs, not 1", n)
	}
}
