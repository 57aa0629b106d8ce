package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
)

// TestOverflowCQ makes a CQ fail: CQ_ERR first, then its QP; it does so once,
// and what is flushed then is counted as lost.
func TestOverflowCQ(t *testing.T) {
	r := rig.New(t, ib.RC, rig.Cap).Connect(ib.MTU1024)
	s := r.Sides[0]
	r.Recv(0, ib.RecvWR{}, ib.RecvWR{})
	if !s.HCA.OverflowCQ(r.Now, s.CQ) || s.HCA.OverflowCQ(r.Now, s.CQ) {
		t.Error("a CQ fails once")
	}
	if len(s.Events) != 2 || s.Events[0].Type != ib.EventCQErr || s.Events[0].CQ != s.CQ || s.Events[1].Type != ib.EventQPFatal {
		t.Errorf("the events are %v", s.Events)
	}
	if n := s.HCA.Counters().CQEOverflow; n != 2 || !s.CQ.Failed() || s.QP.State() != ib.ERR {
		t.Errorf("%d completions lost, failed %t, the QP is in %v", n, s.CQ.Failed(), s.QP.State())
	}
	s.HCA.Raise(qp.Event{Type: ib.EventPortErr, Port: 1})
	if e := s.Events[len(s.Events)-1]; e.Type != ib.EventPortErr || e.Port != 1 {
		t.Errorf("the event raised is %v", e)
	}
	n := 0
	s.HCA.EachQP(func(q *qp.QP) {
		if n++; q != s.QP || q.SendCQ() != s.CQ || q.SRQ() != nil {
			t.Errorf("QP %v is none of this adapter", q.Num())
		}
	})
	if n != 1 {
		t.Errorf("%d QPs, not 1", n)
	}
}
