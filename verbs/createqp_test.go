package verbs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

func TestV3_OneCQOrTwo(t *testing.T) {
	a, b := newPair(t, ib.RC)
	sends, err := a.ctx.CreateCQ(4, nil)
	must.Do(t, err)
	init := a.init(ib.RC)
	init.SendCQ = sends
	two := *a
	two.qp, err = a.pd.CreateQP(init)
	must.Do(t, err)
	connect(t, &two, b, nil)
	must.Do(t, two.qp.PostRecv(a.recv(2, 0, 100)))
	must.Do(t, b.qp.PostRecv(b.recv(3, 0, 100)))
	must.Do(t, two.qp.PostSend(a.send(1, 10)))
	must.Do(t, b.qp.PostSend(b.send(4, 10)))
	b.wait(t, 2)
	if wc := two.wait(t, 1)[0]; wc.WRID != 2 || wc.Opcode != ib.WCRecv {
		t.Errorf("the receive CQ has %+v, want the receive", wc)
	}
	s := endpoint{ctx: a.ctx, cq: sends, qp: two.qp}
	if wc := s.wait(t, 1)[0]; wc.WRID != 1 || wc.Opcode != ib.WCSend {
		t.Errorf("the send CQ has %+v, want the send", wc)
	}
	s.quiet(t, "send CQ")
	two.quiet(t, "receive CQ")
	must.Fail(t, sends.Destroy(), ErrBusy, "destroy the send CQ of a QP")
	must.Do(t, two.qp.Destroy())
	must.Do(t, sends.Destroy())
	must.Fail(t, sends.Destroy(), ErrInvalidCQ, "destroy a CQ again")
}

func TestV3_SharedCQ(t *testing.T) {
	a, b := newPair(t, ib.RC)
	a2, b2 := *a, b.sibling(t, ib.RC)
	var err error
	a2.qp, err = a.pd.CreateQP(a.init(ib.RC))
	must.Do(t, err)
	connect(t, a, b, nil)
	connect(t, &a2, b2, nil)
	for i := range uint64(5) {
		must.Do(t, a.qp.PostSend(a.write(i, 8, b)))
		must.Do(t, a2.qp.PostSend(a.write(i, 8, b2)))
	}
	next := map[ib.QPN]uint64{}
	for _, wc := range a.wait(t, 10) {
		if wc.WRID != next[wc.QPN] {
			t.Errorf("QP %v: completion of %d, want %d", wc.QPN, wc.WRID, next[wc.QPN])
		}
		next[wc.QPN]++
	}
	if next[a.qp.QPN()] != 5 || next[a2.qp.QPN()] != 5 {
		t.Errorf("completions by QP: %v, want 5 of each", next)
	}
	must.Fail(t, a.cq.Destroy(), syscall.EBUSY, "destroy a CQ that two QPs share")
}

func TestV3_ResizeKeepsEntries(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	const n = 20
	for i := range uint64(n) {
		must.Do(t, b.qp.PostRecv(b.recv(i, 0, 8)))
		must.Do(t, a.qp.PostSend(a.send(i, 8)))
	}
	a.wait(t, n) // acknowledged: the peer has its n completions
	seen := b.wait(t, 3)
	must.Fail(t, b.cq.Resize(8), syscall.EINVAL, "resize to less than what waits")
	must.Fail(t, b.cq.Resize(0), syscall.EINVAL, "resize to nothing")
	must.Fail(t, b.cq.Resize(-1), syscall.EINVAL, "resize to a negative size")
	must.Fail(t, b.cq.Resize(1<<30), syscall.EINVAL, "resize to more than the adapter takes")
	must.Do(t, b.cq.Resize(32))
	if b.cq.Cap() < 32 {
		t.Errorf("the CQ has %d entries after a resize to 32", b.cq.Cap())
	}
	seen = append(seen, b.wait(t, 5)...)
	must.Do(t, b.cq.Resize(1000))
	seen = append(seen, b.wait(t, n-8)...)
	for i, wc := range seen {
		if wc.WRID != uint64(i) {
			t.Fatalf("completion %d is of %d: resizing lost or moved entries", i, wc.WRID)
		}
	}
	for _, n := range []int{0, -1, 1 << 30} {
		_, err := a.ctx.CreateCQ(n, nil)
		must.Fail(t, err, syscall.EINVAL, "create a CQ of a size that is none")
	}
}

func TestV4_SignallingChosenPerRequest(t *testing.T) {
	a, b := newPair(t, ib.RC)
	init := a.init(ib.RC)
	init.SQSig = ib.SigPerWR
	var err error
	a.qp, err = a.pd.CreateQP(init)
	must.Do(t, err)
	connect(t, a, b, nil)
	for i := range uint64(9) {
		wr := a.write(i, 8, b)
		if i%3 == 2 {
			wr.Flags = ib.SendSignaled
		}
		must.Do(t, a.qp.PostSend(wr))
	}
	for i, wc := range a.wait(t, 3) {
		if wc.WRID != uint64(i*3+2) {
			t.Errorf("completion %d is of request %d, which was not signalled", i, wc.WRID)
		}
	}
	bad := a.write(99, 8, b)
	bad.RKey ^= 0x5500
	must.Do(t, a.qp.PostSend(bad))
	if wc := a.take(t, 1)[0]; wc.WRID != 99 || wc.Status != ib.WCRemAccessErr {
		t.Errorf("an unsignalled request that fails completed with %+v", wc)
	}
}

func TestV5_ActualSizes(t *testing.T) {
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork(), QPNSlot: 0xfe}, ib.RC)
	for _, asked := range []QPCap{
		{},
		{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 1},
		{MaxSendWR: 5, MaxRecvWR: 100, MaxSendSGE: 3, MaxRecvSGE: 7, MaxInlineData: 33},
		{MaxSendWR: 1000, MaxRecvWR: 17, MaxSendSGE: 32, MaxRecvSGE: 32, MaxInlineData: 512},
	} {
		init := e.init(ib.RC)
		init.Cap = asked
		q, err := e.pd.CreateQP(init)
		must.Do(t, err)
		c := init.Cap
		if c.MaxSendWR < asked.MaxSendWR || c.MaxRecvWR < asked.MaxRecvWR || c.MaxSendSGE < asked.MaxSendSGE ||
			c.MaxRecvSGE < asked.MaxRecvSGE || c.MaxInlineData < asked.MaxInlineData {
			t.Errorf("asked for %+v, got less: %+v", asked, c)
		}
		if a, err := q.Query(); err != nil || a.Cap != c {
			t.Errorf("query says %+v, %v; creation said %+v", a.Cap, err, c)
		}
		if n := q.QPN(); n>>24 != 0 || n < 2 || n == ib.QPNMulticast {
			t.Errorf("QPN %v is no 24-bit number of a QP", n)
		}
		if init.Cap.MaxRecvWR == 0 {
			continue
		}
		e.qp = q
		e.walk(t, e.attrs(e), ib.INIT)
		for i := range c.MaxRecvWR {
			if err := q.PostRecv(RecvWR{WRID: uint64(i)}); err != nil {
				t.Fatalf("receive %d of %d: %v", i, c.MaxRecvWR, err)
			}
		}
		must.Fail(t, q.PostRecv(RecvWR{}), syscall.ENOMEM, "one receive more than the actual size")
	}
}

// creationErrors are the ways in which creating a QP fails.
var creationErrors = map[string]error{
	"insufficient resources": ErrInsufficientResources, "invalid HCA": ErrInvalidHCA, "invalid CQ": ErrInvalidCQ,
	"invalid PD": ErrInvalidPD, "invalid SRQ": ErrInvalidSRQ, "invalid service type": ErrInvalidServiceType,
	"invalid RDD": ErrInvalidRDD, "too many WRs": ErrTooManyWRs, "too many SGEs": ErrTooManySGEs,
	"too much inline": ErrTooMuchInline,
}

// only fails the test unless err is one of the creation errors and no other.
func only(t *testing.T, err error, name string, errno syscall.Errno) {
	t.Helper()
	for n, e := range creationErrors {
		if errors.Is(err, e) != (n == name) {
			t.Errorf("%v: is %q: %v, want only %q", err, n, errors.Is(err, e), name)
		}
	}
	must.Fail(t, err, errno, name)
}

func TestV6_CreationErrors(t *testing.T) {
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	foreign := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	deadPD, err := e.ctx.AllocPD()
	must.Do(t, err)
	must.Do(t, deadPD.Dealloc())
	deadCQ, err := e.ctx.CreateCQ(1, nil)
	must.Do(t, err)
	must.Do(t, deadCQ.Destroy())
	srq := func(pd *PD) *SRQ {
		s, err := pd.CreateSRQ(&SRQInitAttr{MaxWR: 1, MaxSGE: 1})
		must.Do(t, err)
		return s
	}
	otherPD, err := e.ctx.AllocPD()
	must.Do(t, err)
	deadSRQ, foreignSRQ, otherSRQ := srq(e.pd), srq(foreign.pd), srq(otherPD)
	must.Do(t, deadSRQ.Destroy())
	closed := newEndpoint(t, Config{Addr: "10.0.0.2", Network: NewNetwork()}, ib.RC)
	must.Do(t, closed.ctx.Close())
	d, err := e.ctx.QueryDevice()
	must.Do(t, err)
	for _, c := range []struct {
		what  string
		pd    *PD
		set   func(*QPInitAttr)
		name  string
		errno syscall.Errno
	}{
		{"a closed adapter", closed.pd, func(*QPInitAttr) {}, "invalid HCA", syscall.ENODEV},
		{"no PD", nil, func(*QPInitAttr) {}, "invalid PD", syscall.EINVAL},
		{"a PD that is gone", deadPD, func(*QPInitAttr) {}, "invalid PD", syscall.EINVAL},
		{"no send CQ", e.pd, func(a *QPInitAttr) { a.SendCQ = nil }, "invalid CQ", syscall.EINVAL},
		{"no receive CQ", e.pd, func(a *QPInitAttr) { a.RecvCQ = nil }, "invalid CQ", syscall.EINVAL},
		{"a CQ that is gone", e.pd, func(a *QPInitAttr) { a.RecvCQ = deadCQ }, "invalid CQ", syscall.EINVAL},
		{"another adapter's CQ", e.pd, func(a *QPInitAttr) { a.SendCQ = foreign.cq }, "invalid CQ", syscall.EINVAL},
		{"another PD's SRQ", e.pd, func(a *QPInitAttr) { a.SRQ = otherSRQ }, "invalid SRQ", syscall.EINVAL},
		{"another adapter's SRQ", e.pd, func(a *QPInitAttr) { a.SRQ = foreignSRQ }, "invalid SRQ", syscall.EINVAL},
		{"an SRQ that is gone", e.pd, func(a *QPInitAttr) { a.SRQ = deadSRQ }, "invalid SRQ", syscall.EINVAL},
		{"RD in no domain", e.pd, func(a *QPInitAttr) { a.Type = ib.RD }, "invalid RDD", syscall.EINVAL},
		{"no such service", e.pd, func(a *QPInitAttr) { a.Type = 99 }, "invalid service type", syscall.EOPNOTSUPP},
		{"a long send queue", e.pd, func(a *QPInitAttr) { a.Cap.MaxSendWR = d.MaxQPWR + 1 }, "too many WRs", syscall.EINVAL},
		{"a long receive queue", e.pd, func(a *QPInitAttr) { a.Cap.MaxRecvWR = 1<<32 - 1 }, "too many WRs", syscall.EINVAL},
		{"many gather elements", e.pd, func(a *QPInitAttr) { a.Cap.MaxSendSGE = d.MaxSGE + 1 }, "too many SGEs", syscall.EINVAL},
		{"many scatter elements", e.pd, func(a *QPInitAttr) { a.Cap.MaxRecvSGE = 1<<32 - 1 }, "too many SGEs", syscall.EINVAL},
		{"much inline data", e.pd, func(a *QPInitAttr) { a.Cap.MaxInlineData = d.MaxInlineData + 1 }, "too much inline", syscall.EINVAL},
	} {
		t.Run(c.what, func(t *testing.T) {
			init := e.init(ib.RC)
			if c.pd == closed.pd {
				init = closed.init(ib.RC)
			}
			c.set(init)
			asked := *init
			q, err := c.pd.CreateQP(init)
			if q != nil || err == nil {
				t.Fatalf("created QP %v", q)
			}
			only(t, err, c.name, c.errno)
			if *init != asked {
				t.Error("a refused creation changed the attributes")
			}
		})
	}
	_, err = e.pd.CreateQP(nil)
	must.Fail(t, err, syscall.EINVAL, "create a QP of nothing")
	must.Do(t, otherSRQ.Destroy())
	must.Do(t, otherPD.Dealloc()) // refused calls use no objects
}

// TestV6_QPsRunOut creates as many QPs as the adapter holds.
func TestV6_QPsRunOut(t *testing.T) {
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	d, err := e.ctx.QueryDevice()
	must.Do(t, err)
	init := &QPInitAttr{Type: ib.UC, SendCQ: e.cq, RecvCQ: e.cq}
	seen := make(map[ib.QPN]bool, d.MaxQP)
	for range d.MaxQP - 1 { // the endpoint has one
		q, err := e.pd.CreateQP(init)
		must.Do(t, err)
		if seen[q.QPN()] || q.QPN() == e.qp.QPN() {
			t.Fatalf("QPN %v twice", q.QPN())
		}
		seen[q.QPN()] = true
	}
	_, err = e.pd.CreateQP(init)
	only(t, err, "insufficient resources", syscall.ENOMEM)
	must.Do(t, e.qp.Destroy())
	_, err = e.pd.CreateQP(init)
	must.Do(t, err)
}
