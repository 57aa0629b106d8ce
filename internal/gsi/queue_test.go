package gsi

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
)

// TestC12_QueueOrder compares the ring with a slice while it grows, wraps and
// drains.
func TestC12_QueueOrder(t *testing.T) {
	const seed = 12
	src := rand.New(rand.NewPCG(seed, seed))
	q := queue{max: 100}
	var model []byte
	next := byte(0)
	for step := range 20_000 {
		if src.IntN(500) < 250+(step/500)%2*100-50 {
			ok := q.push(&route{}, &mad.MAD{next})
			if ok != (len(model) < q.max) {
				t.Fatalf("seed %d, step %d: a push with %d entries gives room: %v", seed, step, len(model), ok)
			}
			if ok {
				model = append(model, next)
				next++
			}
			continue
		}
		e := q.front()
		if (e == nil) != (len(model) == 0) || e != nil && e.mad[0] != model[0] {
			t.Fatalf("seed %d, step %d: the front is wrong with %d entries", seed, step, len(model))
		}
		if e != nil {
			q.pop()
			model = model[1:]
		}
		if q.len() != len(model) {
			t.Fatalf("seed %d, step %d: the queue has %d entries, want %d", seed, step, q.len(), len(model))
		}
	}
	if len(q.buf) != q.max {
		t.Errorf("the ring ends with %d entries: the bound of %d was not reached", len(q.buf), q.max)
	}
}

// TestC12_QueueFull shows the bound of the queue, the error and the count
// beyond it, and that a request without room leaves nothing behind.
func TestC12_QueueFull(t *testing.T) {
	r := newRig(t, Config{MaxQueue: 20})
	a := r.agent(mad.ClassPerf, 1)
	to := Address{Remote: rigPeer}
	for tid := range uint64(20) {
		must.Do(t, a.Send(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, tid)))
	}
	if err := a.Send(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, 99)); !errors.Is(err, ErrQueueFull) || !errors.Is(err, ib.EAGAIN) {
		t.Errorf("the 21st: %v", err)
	}
	_, err := a.Request(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodGet, 99), Retry{Timeout: 1}, nil)
	if !errors.Is(err, ErrQueueFull) || r.g.Deadline() != 1<<63-1 {
		t.Errorf("a request with a full queue: %v, deadline %v", err, r.g.Deadline())
	}
	if n := r.g.Counters().QueueFull; n != 2 {
		t.Errorf("2 MADs found the queue full, %d are counted", n)
	}
	r.wantSent("what was taken", 20)
	must.Do(t, a.Send(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, 100)))
}

// TestC12_AnswersLeaveRoom shows that answers may take half of the queue,
// agents' MADs all of it, and that both are copied and sent in order.
func TestC12_AnswersLeaveRoom(t *testing.T) {
	r := newRig(t, Config{MaxQueue: 20})
	a := r.agent(mad.ClassPerf, 1)
	to := Address{Remote: rigPeer}
	for tid := range uint64(10) {
		must.Do(t, a.Answer(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, tid)))
	}
	must.Fail(t, a.Answer(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, 99)), ErrQueueFull, "the 11th answer")
	for tid := range uint64(10) {
		must.Do(t, a.Send(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, 10+tid)))
	}
	if n := r.g.Counters().QueueFull; n != 1 {
		t.Errorf("1 MAD found no room, %d are counted", n)
	}
	for i, s := range r.sent() {
		if s.header().TID != uint64(i) {
			t.Errorf("MAD %d leaves as number %d", s.header().TID, i)
		}
	}
	must.Fail(t, a.Answer(r.now, to, madOf(mad.ClassSA, 2, mad.MethodSend, 1)), ib.EINVAL, "an answer of another class")
	a.Close(r.now)
	must.Fail(t, a.Answer(r.now, to, madOf(mad.ClassPerf, 1, mad.MethodSend, 1)), ErrAgentClosed, "an answer of an agent that is closed")
}

// TestQueueOfEachPort shows that a MAD waits in the queue of the port that has its source address:
// the full queue of one port refuses no MAD of another.
func TestQueueOfEachPort(t *testing.T) {
	second := netip.AddrFrom4([4]byte{10, 0, 1, 1})
	r := newRig(t, Config{MaxQueue: 4, Ports: [][]netip.Addr{{rigLocal}, {second}}})
	a := r.agent(mad.ClassPerf, 1)
	m := madOf(mad.ClassPerf, 1, mad.MethodSend, 1)
	first, other := Address{Remote: rigPeer}, Address{Local: second, Remote: rigPeer}
	for range 4 {
		must.Do(t, a.Send(r.now, first, m))
	}
	must.Fail(t, a.Send(r.now, first, m), ErrQueueFull, "the 5th of port 1")
	must.Fail(t, a.Answer(r.now, first, m), ErrQueueFull, "an answer of port 1")
	must.Do(t, a.Answer(r.now, other, m))
	must.Do(t, a.Send(r.now, other, m))
	r.g.Transmit(r.now, 2, r.batch)
	runs := r.batch.Pending()
	if len(runs) != 1 || runs[0].Count != 2 || runs[0].Path.Src != second || !r.g.Pending(1) || r.g.Pending(2) {
		t.Errorf("port 2 sends %+v, pending: %v, %v", runs, r.g.Pending(1), r.g.Pending(2))
	}
}
