package hca_test

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// TestRingDuringAnswer rings a doorbell while the adapter answers the previous
// one, as another thread may: from the event of the resulting completion. The
// adapter sees the new request, in this turn or the next, which it requests.
func TestRingDuringAnswer(t *testing.T) {
	w := newWorld(t, hca.Limits{})
	pd, err := w.hca.AllocPD()
	w.must(err)
	var q *qp.QP
	posted := 0
	post := func() {
		_, err := q.PostSend(ib.SendWR{Opcode: ib.WRSend, WRID: uint64(posted)})
		w.must(err)
		posted++
		w.hca.Single().RingDoorbell(q)
	}
	send, err := w.hca.CreateCQ(16, nil)
	w.must(err)
	var recv *qp.CQ
	recv, err = w.hca.CreateCQ(16, post)
	w.must(err)
	q, err = w.hca.CreateQP(pd, hca.QPConfig{
		Type: ib.RC, SendCQ: send, RecvCQ: recv, Cap: ib.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	w.must(err)
	w.must(q.Modify(w.now, &ib.QPAttr{State: ib.ERR}, ib.AttrState))

	const rounds = 10
	var wc [16]ib.WC
	for i := range rounds {
		recv.Arm(false)
		_, err := q.PostRecv(ib.RecvWR{WRID: uint64(i)})
		w.must(err)
		w.hca.Single().RingDoorbell(q)
		for w.hca.Single().Pending() {
			w.hca.Single().Transmit(w.now, w.batch)
		}
		if n := recv.Poll(wc[:]); n != 1 || posted != i+1 {
			t.Fatalf("round %d: %d receives flushed, %d sends posted by then", i, n, posted)
		}
		if n := send.Poll(wc[:]); n != 1 || wc[0].WRID != uint64(i) {
			t.Fatalf("round %d: of the send posted during the answer %d are flushed, request %d", i, n, wc[0].WRID)
		}
	}
}
