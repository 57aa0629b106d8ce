package verbs

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// returns calls f, and ends the process if it hangs: it holds the adapter's lock, so that
// closing the adapter would hang too.
func returns(t testing.TB, what string, f func() error) {
	t.Helper()
	hangs := time.AfterFunc(waitLimit, func() { panic(what + " hangs") })
	defer hangs.Stop()
	must.Do(t, f())
}

// TestDestroyEECOverflowsCQ destroys an EE context. The request that this ends completes with
// an error, for which its completion queue has no room: the queue and the queue pair fail, and
// the program gets their events.
func TestDestroyEECOverflowsCQ(t *testing.T) {
	a, b := newChannel(t)
	cq, err := a.ctx.CreateCQ(1, nil)
	must.Do(t, err)
	srq, err := a.pd.CreateSRQ(&SRQInitAttr{MaxWR: 1})
	must.Do(t, err)
	init := a.init(ib.RD)
	init.RDD, init.SendCQ, init.RecvCQ, init.SRQ = a.rdd, cq, cq, srq
	q, err := a.pd.CreateQP(init)
	must.Do(t, err)
	must.Do(t, q.ModifyToRTS(QPAttr{Port: 1, QKey: testQKey, AccessFlags: ib.AccessRemote}))

	n := int(cq.obj.CQ.Cap())
	for i := range n {
		must.Do(t, q.PostSend(a.to(b.qp, a.write(uint64(i), 8, b.endpoint))))
	}
	for end := time.Now().Add(waitLimit); cq.obj.CQ.Pending() < n; a.settle(t) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d requests complete", cq.obj.CQ.Pending(), n)
		}
	}
	must.Do(t, q.PostSend(a.to(b.qp, a.send(uint64(n), 8)))) // the peer has no receive for it
	returns(t, "EEC.Destroy", a.eec.Destroy)
	for _, want := range []AsyncEvent{
		{Type: ib.EventCQErr, CQ: cq}, {Type: ib.EventQPFatal, QP: q}, {Type: ib.EventQPLastWQEReached, QP: q},
	} {
		if ev := a.event(t); ev.Type != want.Type || ev.QP != want.QP || ev.CQ != want.CQ {
			t.Errorf("event %v, want %v of its object", ev, want.Type)
		}
	}
	if q.State() != ib.ERR {
		t.Errorf("the queue pair is in %v, want ERR", q.State())
	}
}
