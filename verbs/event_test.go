package verbs

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

// TestV16_E29_EventsOneAtATime raises events of several kinds and objects and takes
// them: in order, each with its object, none twice. No object can be destroyed
// before its events are acknowledged.
func TestV16_E29_EventsOneAtATime(t *testing.T) {
	a, b := newPair(t, ib.RC)
	srq, b1, b2 := newSRQ(t, b, SRQInitAttr{MaxWR: 4, MaxSGE: 1, Limit: 2})
	connect(t, a, b1, nil)
	must.Do(t, srq.PostRecv(b.recv(1, 0, 8), b.recv(2, 0, 8)))
	must.Do(t, a.qp.PostSend(a.send(1, 8))) // one receive is left: the limit
	a.wait(t, 1)
	b2.move(t, ib.ERR)
	b1.move(t, ib.ERR)
	var taken []AsyncEvent
	for _, want := range []struct {
		typ ib.EventType
		qp  *QP
		srq *SRQ
	}{
		{ib.EventSRQLimitReached, nil, srq},
		{ib.EventQPLastWQEReached, b2.qp, nil},
		{ib.EventQPLastWQEReached, b1.qp, nil},
	} {
		ev := b.event(t)
		if ev.Type != want.typ || ev.QP != want.qp || ev.SRQ != want.srq || ev.CQ != nil || ev.Port != 0 || ev.Err != nil {
			t.Errorf("event %v, want %v of its object alone", ev, want.typ)
		}
		taken = append(taken, ev)
	}
	_, err := b.ctx.PollAsyncEvent()
	must.Fail(t, err, syscall.EAGAIN, "poll for events when there is none")
	must.Fail(t, b1.qp.Destroy(), syscall.EBUSY, "destroy a QP with an event not acknowledged")
	must.Fail(t, b1.qp.Destroy(), ErrBusy, "destroy a QP with an event not acknowledged")
	taken[2].Ack()
	must.Do(t, b1.qp.Destroy())
	must.Fail(t, b2.qp.Destroy(), ErrBusy, "destroy a QP after another one's event was acknowledged")
	taken[1].Ack()
	taken[1].Ack() // a second Ack does nothing
	must.Do(t, b2.qp.Destroy())
	must.Fail(t, srq.Destroy(), ErrBusy, "destroy an SRQ with an event not acknowledged")
	taken[0].Ack()
	must.Do(t, srq.Destroy())
}

func TestV16_E29_AckCountsPerEvent(t *testing.T) {
	a, b := newPair(t, ib.RC)
	attr := b.attrs(a)
	var evs []AsyncEvent
	for range 2 { // COMM_EST, then SQ_DRAINED
		b.walk(t, attr, ib.RTR)
		a.walk(t, a.attrs(b), ib.RTS)
		must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
		a.wait(t, 1)
		ev := b.event(t)
		if ev.Type != ib.EventCommEst || ev.QP != b.qp {
			t.Errorf("event %v, want COMM_EST of the QP", ev)
		}
		evs = append(evs, ev)
		a.move(t, ib.RESET)
		b.move(t, ib.RESET)
	}
	evs[0].Ack()
	evs[0].Ack() // not the other one's
	must.Fail(t, b.qp.Destroy(), ErrBusy, "destroy a QP with one of two events acknowledged")
	evs[1].Ack()
	must.Do(t, b.qp.Destroy())
}

// TestV16_UntakenEvents checks that an event that was not taken does not keep its
// object from being destroyed, and disappears with it.
func TestV16_UntakenEvents(t *testing.T) {
	a, b := newPair(t, ib.RC)
	b2 := b.sibling(t, ib.RC)
	for _, e := range []*endpoint{b, b2} {
		e.walk(t, e.attrs(a), ib.RTS)
		must.Do(t, e.qp.Modify(&QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
	}
	must.Do(t, b.qp.Destroy())
	ev := b.event(t)
	if ev.Type != ib.EventSQDrained || ev.QP != b2.qp {
		t.Errorf("event %v, want that of the QP that is left", ev)
	}
	_, err := b.ctx.PollAsyncEvent()
	must.Fail(t, err, syscall.EAGAIN, "poll for events of a QP that is gone")
}

// TestV16_CQError overflows a CQ: CQ_ERR comes first, then the QP fails. The CQ cannot
// be destroyed until its event is acknowledged.
func TestV16_CQError(t *testing.T) {
	a, b := newPair(t, ib.RC)
	small, err := a.ctx.CreateCQ(3, a.ch)
	must.Do(t, err)
	init := a.init(ib.RC)
	init.SendCQ = small
	a.qp, err = a.pd.CreateQP(init)
	must.Do(t, err)
	connect(t, a, b, nil)
	for i := range uint64(4) {
		must.Do(t, a.qp.PostSend(a.write(i, 8, b)))
	}
	ev := a.event(t)
	if ev.Type != ib.EventCQErr || ev.CQ != small {
		t.Fatalf("event %v, want CQ_ERR of the CQ", ev)
	}
	fatal := a.event(t)
	if fatal.Type != ib.EventQPFatal || fatal.QP != a.qp || a.qp.State() != ib.ERR {
		t.Errorf("event %v in %v, want QP_FATAL of the QP", fatal, a.qp.State())
	}
	if !small.Overrun() || a.cq.Overrun() {
		t.Errorf("overrun: %v, %v; want it of the small CQ only", small.Overrun(), a.cq.Overrun())
	}
	if n := (&endpoint{ctx: a.ctx, cq: small, qp: a.qp}).take(t, 2); n[0].WRID != 0 || n[1].WRID != 1 {
		t.Errorf("what the CQ held is %+v", n)
	}
	if n := a.counter(t, "cqe_overflow"); n == 0 {
		t.Error("completions that found no room are not counted")
	}
	fatal.Ack()
	must.Do(t, a.qp.Destroy())
	must.Fail(t, small.Destroy(), ErrBusy, "destroy a CQ with an event not acknowledged")
	ev.Ack()
	must.Do(t, small.Destroy())
}

func TestV16_WaitEnds(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := a.ctx.GetAsyncEvent(ctx)
	must.Fail(t, err, context.Canceled, "wait for an event with a context that has ended")
	const waiters = 4
	errs := make(chan error, waiters)
	for range waiters {
		go func() {
			_, err := a.ctx.GetAsyncEvent(context.Background())
			errs <- err
		}()
	}
	must.Do(t, a.ctx.Close())
	for range waiters {
		must.Fail(t, <-errs, ErrInvalidHCA, "wait for an event of an adapter that is closed")
	}
	_, err = a.ctx.PollAsyncEvent()
	must.Fail(t, err, ErrInvalidHCA, "poll an adapter that is closed")
}

// TestV16_Select waits for an event and for other channels in one select.
func TestV16_Select(t *testing.T) {
	a, _ := newConnected(t, ib.RC)
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	must.Do(t, a.qp.Modify(&QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
	for {
		select {
		case <-a.ctx.AsyncEventReady():
		case <-ctx.Done():
			t.Fatal("no event became ready")
		}
		if ev, err := a.ctx.PollAsyncEvent(); err == nil {
			if ev.Type != ib.EventSQDrained {
				t.Errorf("event %v, want SQ_DRAINED", ev)
			}
			return
		}
	}
}

// TestV16_ManyEventsAreCounted raises more events than are kept.
func TestV16_ManyEventsAreCounted(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a.walk(t, a.attrs(b), ib.RTS)
	for range device.MaxEvents + 10 {
		must.Do(t, a.qp.Modify(&QPAttr{State: ib.SQD, EnSQDAsyncNotify: true}, ib.AttrState|ib.AttrEnSQDAsyncNotify))
		a.move(t, ib.RTS)
	}
	if n := a.counter(t, "events_lost"); n != 10 {
		t.Errorf("%d events lost, want 10", n)
	}
	for range device.MaxEvents {
		ev, err := a.ctx.PollAsyncEvent()
		must.Do(t, err)
		ev.Ack()
	}
	_, err := a.ctx.PollAsyncEvent()
	must.Fail(t, err, syscall.EAGAIN, "poll for more events than are kept")
	must.Do(t, a.qp.Destroy())
}

// TestE29_TakenWhileDestroyed takes an event about an object while another goroutine
// destroys the object. One of the two is first: no event is taken of a destroyed
// object.
func TestE29_TakenWhileDestroyed(t *testing.T) {
	const seed = 29
	t.Logf("seed %d", seed)
	wait := rand.New(rand.NewPCG(seed, 0))
	a, _ := newPair(t, ib.RC)
	both := 0
	for range 3000 {
		for _, o := range a.doomed(t) {
			must.Do(t, a.raise(o.event))
			pause := [2]int{wait.IntN(200), wait.IntN(200)}
			taken := make(chan AsyncEvent, 1)
			go func() {
				spin(pause[0])
				ev, _ := a.ctx.PollAsyncEvent() // the zero event if there is none
				taken <- ev
			}()
			spin(pause[1])
			err := o.destroy()
			ev := <-taken
			if got := ev.QP != nil || ev.CQ != nil || ev.SRQ != nil; got == (err == nil) {
				t.Fatalf("event %v taken: %v, and the object's end: %v", o.event.Type, got, err)
			}
			if err != nil {
				both++
				ev.Ack()
				must.Do(t, o.destroy())
			}
		}
	}
	t.Logf("%d events were first", both)
}

// doomed is an object with an event about it.
type doomed struct {
	event   qp.Event
	destroy func() error
}

// doomed returns a new object of each kind that has events.
func (e *endpoint) doomed(t *testing.T) []doomed {
	t.Helper()
	q, err := e.pd.CreateQP(&QPInitAttr{Type: ib.UD, SendCQ: e.cq, RecvCQ: e.cq})
	must.Do(t, err)
	cq, err := e.ctx.CreateCQ(1, nil)
	must.Do(t, err)
	srq, err := e.pd.CreateSRQ(&SRQInitAttr{MaxWR: 1})
	must.Do(t, err)
	return []doomed{
		{qp.Event{Type: ib.EventQPFatal, QPN: q.QPN()}, q.Destroy},
		{qp.Event{Type: ib.EventCQErr, CQ: cq.obj.CQ}, cq.Destroy},
		{qp.Event{Type: ib.EventSRQErr, SRQ: srq.obj.SRQ}, srq.Destroy},
	}
}

// raise raises an event without a cause.
func (e *endpoint) raise(ev qp.Event) error {
	return e.ctx.dev().Do(func(clock.Instant) error {
		e.ctx.dev().HCA.Raise(ev)
		return nil
	})
}

// TestEventsOfNewQP raises events about each queue pair as soon as the device has it. An event
// can reach a program before CreateQP returns, and the queue pair in it is complete.
func TestEventsOfNewQP(t *testing.T) {
	e := newEndpoint(t, Config{}, ib.RC)
	dev := device.Of(e.ctx)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			must.Do(t, dev.Do(func(clock.Instant) error {
				dev.HCA.EachQP(func(q *qp.QP) { dev.HCA.Raise(qp.Event{Type: ib.EventSQDrained, QPN: q.Num()}) })
				return nil
			}))
			runtime.Gosched()
		}
	})
	var events atomic.Int64
	all.Go(func() {
		for {
			ev, err := e.ctx.GetAsyncEvent(ctx)
			if err != nil {
				return
			}
			if ev.QP.QPN() == 0 || ev.QP.Type() != ib.RC || device.QPOf(ev.QP) == nil {
				t.Errorf("the event is about queue pair %v, %v", ev.QP.QPN(), ev.QP.Type())
			}
			ev.Ack()
			events.Add(1)
		}
	})
	// On a busy machine 200 queue pairs can come and go before the goroutine that raises runs once.
	for n := 0; n < 200 || events.Load() == 0 && n < 1_000_000; n++ {
		q, err := e.pd.CreateQP(e.init(ib.RC))
		must.Do(t, err)
		for err = q.Destroy(); errors.Is(err, ErrBusy); err = q.Destroy() {
			runtime.Gosched() // an event about it is not acknowledged yet
		}
		must.Do(t, err)
	}
	stop()
	all.Wait()
	if events.Load() == 0 {
		t.Error("no event came")
	}
}
