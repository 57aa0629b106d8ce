package verbs

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// channelEnd is an endpoint with an RD queue pair and its EE context.
type channelEnd struct {
	*endpoint
	rdd *RDD
	eec *EEC
}

// newChannelEnd opens an adapter with an RD queue pair in RTS.
func newChannelEnd(t testing.TB, cfg Config) *channelEnd {
	t.Helper()
	e := &channelEnd{endpoint: newEndpoint(t, cfg, ib.RC)}
	must.Do(t, e.qp.Destroy())
	var err error
	e.rdd, err = e.ctx.AllocRDD()
	must.Do(t, err)
	e.eec, err = e.rdd.CreateEEC()
	must.Do(t, err)
	e.qp = e.newQP(t)
	return e
}

// newQP returns another RD queue pair, in RTS.
func (e *channelEnd) newQP(t testing.TB) *QP {
	t.Helper()
	init := e.init(ib.RD)
	init.RDD = e.rdd
	q, err := e.pd.CreateQP(init)
	must.Do(t, err)
	must.Do(t, q.ModifyToRTS(QPAttr{Port: 1, QKey: testQKey, AccessFlags: ib.AccessRemote}))
	return q
}

// join connects the EE contexts of two ends. change, if not nil, alters the
// attributes of both.
func join(t testing.TB, a, b *channelEnd, change func(*QPAttr)) {
	t.Helper()
	for _, p := range [][2]*channelEnd{{a, b}, {b, a}} {
		attr := p[0].attrs(p[1].endpoint)
		attr.DestQPN = ib.QPN(p[1].eec.EECN())
		if change != nil {
			change(&attr)
		}
		must.Do(t, p[0].eec.ModifyToRTS(attr))
	}
}

// newChannel returns two connected ends on a network in memory.
func newChannel(t testing.TB) (a, b *channelEnd) {
	t.Helper()
	n := NewNetwork()
	a, b = newChannelEnd(t, Config{Addr: "10.0.0.1", Network: n}), newChannelEnd(t, Config{Addr: "10.0.0.2", Network: n})
	join(t, a, b, nil)
	return a, b
}

// to sends a request over a's EE context to a queue pair.
func (e *channelEnd) to(q *QP, wr SendWR) SendWR {
	wr.EEC, wr.RemoteQPN, wr.RemoteQKey = e.eec, q.QPN(), testQKey
	return wr
}

// TestV18_ReliableDatagrams sends, writes, reads and adds over one channel, in both
// directions, and checks the completions on each side.
func TestV18_ReliableDatagrams(t *testing.T) {
	a, b := newChannel(t)
	copy(a.mr.Bytes(), bytes.Repeat([]byte("softhca "), 1<<14))
	must.Do(t, b.qp.PostRecv(b.recv(7, 1<<20, 1<<17)))
	must.Do(t, a.qp.PostSend(a.to(b.qp, a.send(1, 100_000))))
	a.wait(t, 1)
	wc := b.wait(t, 1)[0]
	if wc.SrcQP != a.qp.QPN() || wc.EEC != b.eec.EECN() || wc.ByteLen != 100_000 || wc.QPN != b.qp.QPN() {
		t.Errorf("the receive completes as %+v; the message came from %v over %v", wc, a.qp.QPN(), b.eec.EECN())
	}
	if !bytes.Equal(a.mr.Bytes()[:100_000], b.mr.Bytes()[1<<20:][:100_000]) {
		t.Error("the message is not what was sent")
	}
	must.Do(t, a.qp.PostSend(a.to(b.qp, a.write(2, 70_000, b.endpoint))))
	must.Do(t, b.qp.PostSend(b.to(a.qp, SendWR{
		WRID: 3, Opcode: ib.WRRDMARead, SGList: []SGE{b.mr.SGE(2<<20, 50_000)}, RKey: a.mr.RKey(), RemoteAddr: a.mr.Addr(),
	})))
	a.wait(t, 1)
	b.wait(t, 1)
	if !bytes.Equal(a.mr.Bytes()[:50_000], b.mr.Bytes()[2<<20:][:50_000]) {
		t.Error("what was read is not what was there")
	}
	must.Do(t, a.qp.PostSend(a.to(b.qp, SendWR{
		WRID: 4, Opcode: ib.WRAtomicFetchAdd, SGList: []SGE{a.mr.SGE(3<<20, 8)}, RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr() + 3<<20, CompareAdd: 5,
	})))
	a.wait(t, 1)
	b.settle(t)
	if b.mr.Bytes()[3<<20] != 5 {
		t.Errorf("the counter is %d, want 5", b.mr.Bytes()[3<<20])
	}
	q, err := a.eec.Query()
	if err != nil || q.State != ib.RTS || q.DestQPN != ib.QPN(b.eec.EECN()) || a.eec.State() != ib.RTS {
		t.Errorf("the EE context is %+v, %v", q, err)
	}
}

// TestV18_Errors posts requests that name invalid objects: each moves only its own
// queue pair to SQE, and events refer to EE contexts.
func TestV18_Errors(t *testing.T) {
	a, b := newChannel(t)
	other := a.newQP(t)
	fails := func(what string, q *QP, wr SendWR, want ib.WCStatus) {
		t.Helper()
		must.Do(t, q.PostSend(wr))
		if wc := a.take(t, 1)[0]; wc.Status != want || wc.QPN != q.QPN() || q.State() != ib.SQE {
			t.Errorf("%s: %+v, want %v; the queue pair is in %v", what, wc, want, q.State())
		}
		must.Do(t, q.Modify(&QPAttr{State: ib.RTS}, ib.AttrState))
	}
	foreign := a.to(b.qp, a.send(1, 8))
	foreign.EEC = b.eec
	fails("another adapter's EE context", a.qp, foreign, ib.WCInvEECNErr)
	rdd, err := a.ctx.AllocRDD()
	must.Do(t, err)
	eec, err := rdd.CreateEEC()
	must.Do(t, err)
	apart := a.to(b.qp, a.send(2, 8))
	apart.EEC = eec
	fails("an EE context of another domain", a.qp, apart, ib.WCLocRDDViolErr)
	must.Fail(t, rdd.Dealloc(), ErrBusy, "deallocate a domain with an EE context")
	must.Do(t, eec.Destroy())
	must.Do(t, rdd.Dealloc())
	must.Fail(t, rdd.Dealloc(), ErrInvalidRDD, "deallocate a domain twice")
	fails("an EE context that is gone", a.qp, apart, ib.WCInvEECNErr)
	wrong := a.to(b.qp, a.send(3, 8))
	wrong.RemoteQKey++
	fails("a wrong Q_Key", a.qp, wrong, ib.WCRemInvRDReqErr)
	must.Do(t, b.qp.PostRecv(b.recv(1, 0, 100)))
	must.Do(t, other.PostSend(a.to(b.qp, a.send(4, 8))))
	a.wait(t, 1)
	b.wait(t, 1)

	late, err := a.rdd.CreateEEC()
	must.Do(t, err)
	early := a.to(b.qp, a.send(5, 8))
	early.EEC = late
	fails("an EE context in RESET", a.qp, early, ib.WCInvEECStateErr)
	must.Do(t, a.eec.Modify(&QPAttr{State: ib.ERR}, ib.AttrState))
	fails("an EE context in ERR", a.qp, a.to(b.qp, a.send(6, 8)), ib.WCInvEECStateErr)
	must.Fail(t, a.eec.Modify(nil, ib.AttrState), syscall.EINVAL, "modify to nothing")
	must.Fail(t, a.rdd.Dealloc(), ErrBusy, "deallocate a domain in use")
	must.Do(t, a.eec.Destroy())
	must.Fail(t, a.eec.Destroy(), syscall.EINVAL, "destroy an EE context twice")
	_, err = a.eec.Query()
	must.Fail(t, err, syscall.EINVAL, "query an EE context that is gone")
}

// TestV18_Events checks that an event of an EE context names it, and that the EE context
// cannot be destroyed until the event is acknowledged.
func TestV18_Events(t *testing.T) {
	a, b := newChannel(t)
	must.Do(t, b.eec.Destroy())
	must.Do(t, a.eec.Modify(&QPAttr{State: ib.RESET}, ib.AttrState))
	attr := a.attrs(b.endpoint)
	attr.DestQPN, attr.Timeout, attr.RetryCnt = ib.QPN(b.eec.EECN()), 8, 0
	must.Do(t, a.eec.ModifyToRTS(attr))
	must.Do(t, a.qp.PostSend(a.to(b.qp, a.send(1, 8))))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRetryExcErr {
		t.Errorf("a request without a peer completes with %v", wc.Status)
	}
	ev, err := a.ctx.GetAsyncEvent(t.Context())
	if err != nil || ev.Type != ib.EventEECFatal || ev.EEC != a.eec || ev.QP != nil {
		t.Fatalf("the event is %v about %p, %v", ev, ev.EEC, err)
	}
	if got, want := ev.String(), "EEC_FATAL eec "+a.eec.EECN().String(); got != want {
		t.Errorf("the event prints as %q, want %q", got, want)
	}
	must.Fail(t, a.eec.Destroy(), ErrBusy, "destroy an EE context with an event that is not acknowledged")
	ev.Ack()
	must.Do(t, a.eec.Destroy())
}

// TestV18_RateIsTheChannels checks that the EE context paces an RD queue pair.
func TestV18_RateIsTheChannels(t *testing.T) {
	a, _ := newChannel(t)
	if err := a.qp.ModifyRateLimit(RateLimit{Rate: 1000}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a rate limit of an RD queue pair: %v, want EINVAL", err)
	}
}
