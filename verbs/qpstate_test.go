package verbs

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
)

func TestV12_Query(t *testing.T) {
	a, b := newPair(t, ib.RC)
	attr, err := a.qp.Query()
	must.Do(t, err)
	if want := (QPAttr{State: ib.RESET, CurState: ib.RESET, Cap: attr.Cap}); attr != want {
		t.Errorf("in RESET query returns %+v, want the state and the sizes only", attr)
	}
	connect(t, a, b, func(q *QPAttr) {
		q.AV.FlowLabel, q.AV.TrafficClass = 0x12345, 7
		q.SQPSN, q.RQPSN = ib.NewPSN(0xfffffe), ib.NewPSN(0xfffffe)
	})
	must.Do(t, a.qp.PostSend(a.write(1, 3*4096, b)))
	a.wait(t, 1)
	attr, err = a.qp.Query()
	must.Do(t, err)
	want := a.attrs(b)
	want.State, want.CurState, want.Cap = ib.RTS, ib.RTS, attr.Cap
	want.AV.FlowLabel, want.AV.TrafficClass = 0x12345, 7
	want.SQPSN, want.RQPSN = ib.NewPSN(1), ib.NewPSN(0xfffffe) // three packets on, over the wrap
	want.QKey = 0                                              // RC has none
	if attr != want {
		t.Errorf("query returns\n%+v, want\n%+v", attr, want)
	}
	attr, err = b.qp.Query()
	must.Do(t, err)
	if attr.RQPSN != ib.NewPSN(1) {
		t.Errorf("the peer expects PSN %v, want 000001", attr.RQPSN)
	}
	a.move(t, ib.RESET)
	attr, err = a.qp.Query()
	must.Do(t, err)
	if attr.State != ib.RESET || attr.DestQPN != 0 || attr.AV != (AHAttr{}) {
		t.Errorf("back in RESET query returns %+v", attr)
	}
}

func TestV12_QuerySaysDraining(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a.walk(t, a.attrs(b), ib.RTS)
	b.walk(t, b.attrs(a), ib.INIT) // in INIT it answers no packets
	must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
	must.Do(t, a.qp.Modify(&QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
	attr, err := a.qp.Query()
	must.Do(t, err)
	if attr.State != ib.SQD || !attr.SQDraining {
		t.Errorf("with a WRITE outstanding query says %v, draining %v", attr.State, attr.SQDraining)
	}
	must.Fail(t, a.qp.Modify(&QPAttr{State: ib.RTS}, ib.AttrState), syscall.EINVAL, "leave SQD while it drains")
	battr := b.attrs(a)
	battr.State = ib.RTR
	must.Do(t, b.qp.Modify(&battr, ib.AttrState|steps[ib.RC][1].mask)) // in RTR it answers
	a.wait(t, 1)
	ev := a.event(t)
	if ev.Type != ib.EventSQDrained || ev.QP != a.qp {
		t.Errorf("event %v, want SQ_DRAINED of the QP", ev)
	}
	attr, err = a.qp.Query()
	must.Do(t, err)
	if attr.SQDraining {
		t.Error("query says draining after SQ_DRAINED")
	}
	a.move(t, ib.RTS)
	must.Do(t, a.qp.PostSend(a.write(2, 8, b)))
	a.wait(t, 1)
}

func TestV13_DestroyInEveryState(t *testing.T) {
	a, b := newPair(t, ib.UD)
	for _, state := range []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.RTS, ib.SQD, ib.SQE, ib.ERR} {
		t.Run(state.String(), func(t *testing.T) {
			e := *a
			var err error
			e.qp, err = a.pd.CreateQP(a.init(ib.UD))
			must.Do(t, err)
			e.reach(t, b, state)
			if e.qp.State() != state {
				t.Fatalf("the QP is %v", e.qp.State())
			}
			must.Do(t, e.qp.Destroy())
			must.Fail(t, e.qp.Destroy(), syscall.EINVAL, "destroy it again")
			e.quiet(t, "a completion outlived its QP")
		})
	}
	must.Do(t, a.qp.Destroy())
	must.Do(t, a.cq.Destroy()) // no longer in use
}

// reach moves e's QP from RESET to a state.
func (e *endpoint) reach(t *testing.T, peer *endpoint, state ib.QPState) {
	t.Helper()
	switch state {
	case ib.RESET:
	case ib.SQD, ib.ERR:
		e.walk(t, e.attrs(peer), ib.RTS)
		e.move(t, state)
	case ib.SQE:
		e.walk(t, e.attrs(peer), ib.RTS)
		wr := e.send(1, 8)
		wr.AH, wr.SGList[0].LKey = e.ah(t, peer), 0x1234567
		must.Do(t, e.qp.PostSend(wr))
		if wc := e.take(t, 1)[0]; wc.Status != ib.WCLocProtErr {
			t.Fatalf("a send with a wrong LKey: %v", wc.Status)
		}
	default:
		e.walk(t, e.attrs(peer), state)
	}
}

// ah returns an address handle for peer.
func (e *endpoint) ah(t testing.TB, peer *endpoint) *AH {
	t.Helper()
	ah, err := e.pd.CreateAH(e.attrs(peer).AV)
	must.Do(t, err)
	return ah
}

func TestV13_QPNRestsAndPacketsDrop(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	must.Do(t, b.qp.PostRecv(b.recv(1, 0, 8), b.recv(2, 0, 8)))
	must.Do(t, a.qp.PostSend(a.send(1, 8)))
	a.wait(t, 1) // the peer's receive has completed, but was not polled
	gone := b.qp.QPN()
	must.Do(t, b.qp.Destroy())
	b.quiet(t, "an unpolled completion outlived its QP")
	for range 2000 {
		q, err := b.pd.CreateQP(&QPInitAttr{Type: ib.RC, SendCQ: b.cq, RecvCQ: b.cq})
		must.Do(t, err)
		if q.QPN() == gone {
			t.Fatalf("QPN %v came back at once", gone)
		}
		must.Do(t, q.Destroy())
	}
	a = a.sibling(t, ib.RC)
	attr := a.attrs(b)
	attr.Timeout, attr.RetryCnt = 8, 1 // gives up after 2 ms
	a.walk(t, attr, ib.RTS)
	before := b.counter(t, "drop_no_qp")
	must.Do(t, a.qp.PostSend(a.send(2, 8)))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRetryExcErr {
		t.Errorf("a SEND to a QP that is gone: %v, want RETRY_EXC_ERR", wc.Status)
	}
	b.reaches(t, "drop_no_qp", before+2) // the SEND and its one retry
	b.quiet(t, "a packet reached a QP that is gone")
}

// TestPostByState posts in every state: refused, kept or flushed.
func TestPostByState(t *testing.T) {
	for _, c := range []struct {
		state      ib.QPState
		send, recv string // "refused", "flushed", "done" or "kept"
	}{
		{ib.RESET, "refused", "refused"},
		{ib.INIT, "refused", "kept"},
		{ib.RTR, "refused", "kept"},
		{ib.RTS, "done", "kept"},
		{ib.SQD, "kept", "kept"},
		{ib.SQE, "flushed", "kept"},
		{ib.ERR, "flushed", "flushed"},
	} {
		t.Run(c.state.String(), func(t *testing.T) {
			a, b := newPair(t, ib.UD)
			a.reach(t, b, c.state)
			wr := a.send(5, 8)
			wr.AH, wr.RemoteQPN = a.ah(t, b), b.qp.QPN()
			if got := a.outcome(t, a.qp.PostSend(wr)); got != c.send {
				t.Errorf("a send in %v is %s, want %s", c.state, got, c.send)
			}
			if got := a.outcome(t, a.qp.PostRecv(a.recv(5, 0, 8))); got != c.recv {
				t.Errorf("a receive in %v is %s, want %s", c.state, got, c.recv)
			}
		})
	}
}

// outcome returns the outcome of posting the work request with ID 5.
func (e *endpoint) outcome(t *testing.T, err error) string {
	t.Helper()
	if err != nil {
		must.Fail(t, err, syscall.EINVAL, "post")
		return "refused"
	}
	wc := make([]WC, 2)
	e.settle(t) // returns after the shard has processed the post
	switch n := poll(t, e.cq, wc); {
	case n == 0:
		return "kept"
	case n == 1 && wc[0].WRID == 5 && wc[0].Status == ib.WCWRFlushErr:
		return "flushed"
	case n == 1 && wc[0].WRID == 5 && wc[0].Status == ib.WCSuccess:
		return "done"
	default:
		return fmt.Sprintf("completed with %+v", wc[:n])
	}
}

// TestQ1_StateIsSettled reads the state while the adapter is at work: as the
// completion of an error is there before the state that the error leads to, State
// waits for the work's end.
func TestQ1_StateIsSettled(t *testing.T) {
	e, _ := newConnected(t, ib.RC)
	began, release := make(chan struct{}), make(chan struct{})
	worked := make(chan error, 1)
	go func() {
		worked <- device.Of(e.ctx).Do(func(now clock.Instant) error {
			close(began)
			<-release
			return e.qp.obj.QP.Force(now, ib.ERR)
		})
	}()
	<-began
	state := make(chan QPState, 1)
	go func() { state <- e.qp.State() }()
	select {
	case s := <-state:
		t.Errorf("in the middle of the adapter's work the state is %v", s)
		state <- s
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	must.Do(t, <-worked)
	if s := <-state; s != ib.ERR {
		t.Errorf("the state is %v, want ERR", s)
	}
}
