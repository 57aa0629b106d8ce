package verbs

import (
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// newSRQ gives b and its sibling, which shares b's PD and CQ, QPs that receive from one
// SRQ.
func newSRQ(t *testing.T, b *endpoint, attr SRQInitAttr) (s *SRQ, b1, b2 *endpoint) {
	t.Helper()
	s, err := b.pd.CreateSRQ(&attr)
	must.Do(t, err)
	two := [2]endpoint{*b, *b}
	for i := range two {
		init := b.init(ib.RC)
		init.SRQ = s
		two[i].qp, err = b.pd.CreateQP(init)
		must.Do(t, err)
		if init.Cap.MaxRecvWR != 0 {
			t.Errorf("a QP on an SRQ says that it has %d receives of its own", init.Cap.MaxRecvWR)
		}
	}
	return s, &two[0], &two[1]
}

func TestSRQ(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a2 := a.sibling(t, ib.RC)
	s, b1, b2 := newSRQ(t, b, SRQInitAttr{MaxWR: 5, MaxSGE: 1})
	connect(t, a, b1, nil)
	connect(t, a2, b2, nil)
	must.Fail(t, b1.qp.PostRecv(b.recv(0, 0, 8)), syscall.EINVAL, "post a receive to a QP on an SRQ")

	got := s.Query()
	if got.MaxWR < 5 || got.MaxSGE < 1 || got.Limit != 0 {
		t.Errorf("asked for 5 requests of 1 element, got %+v", got)
	}
	must.Do(t, s.SetLimit(2))
	must.Fail(t, s.SetLimit(got.MaxWR+1), syscall.EINVAL, "a limit over the size")
	if l := s.Query().Limit; l != 2 {
		t.Errorf("the limit is %d after a refused change, want 2", l)
	}
	for i := range uint64(3) {
		must.Do(t, s.PostRecv(b.recv(i, 64*i, 8)))
	}
	for i, from := range []*endpoint{a, a2} {
		must.Do(t, from.qp.PostSend(from.send(1, 8)))
		from.wait(t, 1)
		wc := b.wait(t, 1)[0]
		if wc.WRID != uint64(i) || wc.QPN != []*endpoint{b1, b2}[i].qp.QPN() {
			t.Errorf("message %d: %+v, want receive %d in QP %d", i, wc, i, i)
		}
	}
	ev := b.event(t)
	if ev.Type != ib.EventSRQLimitReached || ev.SRQ != s {
		t.Errorf("event %v, want SRQ_LIMIT_REACHED of the SRQ", ev)
	}
	if l := s.Query().Limit; l != 0 {
		t.Errorf("the limit is armed after its event: %d", l)
	}
	must.Fail(t, s.Destroy(), syscall.EBUSY, "destroy an SRQ with an event not acknowledged")
	ev.Ack()
	must.Fail(t, s.Destroy(), syscall.EBUSY, "destroy an SRQ that QPs use")

	b1.move(t, ib.ERR)
	if ev := b.event(t); ev.Type != ib.EventQPLastWQEReached || ev.QP != b1.qp {
		t.Errorf("event %v, want QP_LAST_WQE_REACHED of the QP", ev)
	} else {
		ev.Ack()
	}
	b.quiet(t, "a receive of an SRQ was flushed")
	must.Do(t, a2.qp.PostSend(a2.send(3, 8)))
	a2.wait(t, 1)
	if wc := b.wait(t, 1)[0]; wc.WRID != 2 {
		t.Errorf("the other QP received into %d, want the receive that was left", wc.WRID)
	}
	must.Do(t, b1.qp.Destroy())
	must.Do(t, b2.qp.Destroy())
	must.Do(t, s.Destroy())
	must.Fail(t, s.PostRecv(RecvWR{}), ErrInvalidSRQ, "post to an SRQ that is gone")
	must.Fail(t, s.SetLimit(0), ErrInvalidSRQ, "arm an SRQ that is gone")
	must.Fail(t, s.Destroy(), ErrInvalidSRQ, "destroy an SRQ again")
}

func TestSRQPostErrors(t *testing.T) {
	_, b := newPair(t, ib.RC)
	s, _, _ := newSRQ(t, b, SRQInitAttr{MaxWR: 4, MaxSGE: 2})
	err := s.PostRecv(RecvWR{WRID: 1}, RecvWR{WRID: 2, SGList: make([]SGE, 3)}, RecvWR{WRID: 3})
	postErrorOf(t, err, 1, 2)
	must.Fail(t, err, syscall.EINVAL, "post too many scatter elements")
	err = s.PostRecv(RecvWR{}, RecvWR{}, RecvWR{}, RecvWR{WRID: 9})
	postErrorOf(t, err, 3, 9)
	must.Fail(t, err, syscall.ENOMEM, "post more than an SRQ holds")
	for _, attr := range []*SRQInitAttr{nil, {}, {MaxWR: 1 << 30, MaxSGE: 1}, {MaxWR: 4, MaxSGE: 1 << 30}, {MaxWR: 4, MaxSGE: 1, Limit: 5}} {
		_, err := b.pd.CreateSRQ(attr)
		must.Fail(t, err, syscall.EINVAL, "create an SRQ of a size that is none")
	}
}

// TestSRQRunsDry has two QPs compete for too few receives: RNR NAKs hold the
// senders until more are posted, and nothing is lost.
func TestSRQRunsDry(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a2 := a.sibling(t, ib.RC)
	s, b1, b2 := newSRQ(t, b, SRQInitAttr{MaxWR: 16, MaxSGE: 1})
	soon := func(q *QPAttr) { q.MinRNRTimer = 1 } // 10 µs
	connect(t, a, b1, soon)
	connect(t, a2, b2, soon)
	const each = 100
	for i := range uint64(each) {
		must.Do(t, a.qp.PostSend(a.send(i, 8)))
		must.Do(t, a2.qp.PostSend(a2.send(i, 8)))
	}
	for range 2 * each {
		must.Do(t, s.PostRecv(b.recv(0, 0, 8)))
		b.wait(t, 1)
	}
	a.wait(t, each)
	a2.wait(t, each)
	if n := b.counter(t, "send_rnr_err"); n == 0 {
		t.Error("the SRQ never ran dry: the test proves nothing")
	}
}
