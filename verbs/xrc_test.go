package verbs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// xrcTarget is an endpoint with an XRC domain, and in it one target and two shared receive queues
// of different protection domains and CQs.
type xrcTarget struct {
	*endpoint
	domain *XRCDomain
	target *QP
	cqs    [2]*CQ
	srqs   [2]*SRQ
	mrs    [2]*MR
}

// newXRC returns an initiator, as the queue pair of an endpoint, and a target, connected on a
// network in memory.
func newXRC(t testing.TB) (a *endpoint, b *xrcTarget) { return newXRCAt(t, Faults{}) }

// newXRCAt is newXRC with faults at the target's side.
func newXRCAt(t testing.TB, f Faults) (a *endpoint, b *xrcTarget) {
	t.Helper()
	n := NewNetwork()
	a = newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, ib.RC)
	must.Do(t, a.qp.Destroy())
	init := a.init(ib.XRCIni)
	init.RecvCQ, init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = nil, 0, 0
	var err error
	a.qp, err = a.pd.CreateQP(init)
	must.Do(t, err)
	b = &xrcTarget{endpoint: newEndpoint(t, Config{Addr: "10.0.0.2", Network: n, Faults: f}, ib.RC)}
	b.domain, err = b.ctx.OpenXRCDomain()
	must.Do(t, err)
	for i := range b.srqs {
		pd, err := b.ctx.AllocPD()
		must.Do(t, err)
		b.mrs[i], err = pd.RegMR(make([]byte, 16<<10), ib.AccessLocalWrite|ib.AccessRemote)
		must.Do(t, err)
		b.cqs[i], err = b.ctx.CreateCQ(16, nil)
		must.Do(t, err)
		b.srqs[i], err = pd.CreateXRCSRQ(b.domain, b.cqs[i], &SRQInitAttr{MaxWR: 8, MaxSGE: 1})
		must.Do(t, err)
	}
	b.target, err = b.domain.CreateQP()
	must.Do(t, err)
	joinXRC(t, a, b, a.qp, b.target)
	return a, b
}

// joinXRC connects an initiator with a target.
func joinXRC(t testing.TB, a *endpoint, b *xrcTarget, ini, tgt *QP) {
	t.Helper()
	attr := a.attrs(b.endpoint)
	attr.DestQPN = tgt.QPN()
	must.Do(t, ini.ModifyToRTS(attr))
	attr = b.attrs(a)
	attr.DestQPN = ini.QPN()
	must.Do(t, tgt.ModifyToRTS(attr))
}

// receive posts a receive of 100 bytes to one of the queues.
func (b *xrcTarget) receive(t testing.TB, i int, id uint64) {
	t.Helper()
	must.Do(t, b.srqs[i].PostRecv(RecvWR{WRID: id, SGList: []SGE{b.mrs[i].SGE(0, 100)}}))
}

// receiveAt posts a receive of n bytes at an offset of the queue's region, which is its ID.
func (b *xrcTarget) receiveAt(t testing.TB, i int, at uint64, n uint32) {
	t.Helper()
	must.Do(t, b.srqs[i].PostRecv(RecvWR{WRID: at, SGList: []SGE{b.mrs[i].SGE(at, n)}}))
}

// took returns the completion of one of the queues.
func (b *xrcTarget) took(t testing.TB, i int) WC {
	t.Helper()
	at := *b.endpoint
	at.cq = b.cqs[i]
	return at.take(t, 1)[0]
}

// TestM4_ExtendedReliableConnection sends, writes, reads and adds over one connection to two
// shared receive queues, and checks the completions on each side.
func TestM4_ExtendedReliableConnection(t *testing.T) {
	a, b := newXRC(t)
	copy(a.mr.Bytes(), "to one, to the other")
	for i := range b.srqs {
		b.receive(t, i, uint64(20+i))
		wr := a.send(uint64(1+i), 6)
		wr.RemoteSRQN = b.srqs[i].Number()
		must.Do(t, a.qp.PostSend(wr))
		if wc := b.took(t, i); wc.WRID != uint64(20+i) || wc.Status != ib.WCSuccess || wc.QPN != b.target.QPN() || wc.SrcQP != a.qp.QPN() || wc.ByteLen != 6 {
			t.Errorf("queue %d: the receive completes as %+v", i, wc)
		}
		if got := string(b.mrs[i].Bytes()[:6]); got != "to one" {
			t.Errorf("queue %d received %q", i, got)
		}
		a.take(t, 1)
		write := SendWR{
			WRID: 3, Opcode: ib.WRRDMAWrite, Flags: ib.SendSignaled, SGList: wr.SGList,
			RKey: b.mrs[i].RKey(), RemoteAddr: b.mrs[i].Addr() + 200, RemoteSRQN: b.srqs[i].Number(),
		}
		add := write
		add.Opcode, add.CompareAdd, add.RemoteAddr, add.SGList = ib.WRAtomicFetchAdd, 5, b.mrs[i].Addr()+304, []SGE{{Addr: a.mr.Addr() + 400, Length: 8, LKey: a.mr.LKey()}}
		read := write
		read.Opcode, read.SGList = ib.WRRDMARead, []SGE{{Addr: a.mr.Addr() + 500, Length: 6, LKey: a.mr.LKey()}}
		must.Do(t, a.qp.PostSend(write, add, read))
		for _, wc := range a.wait(t, 3) {
			if wc.Status != ib.WCSuccess {
				t.Errorf("queue %d: %v completes with %v", i, wc.Opcode, wc.Status)
			}
		}
		if got := string(a.mr.Bytes()[500:506]); got != "to one" {
			t.Errorf("queue %d: %q was read of what was written", i, got)
		}
		if b.mrs[i].Bytes()[304] != 5 {
			t.Errorf("queue %d: the atomic had no effect", i)
		}
	}
	if wc := a.qp.Type(); wc != XRCIni || b.target.Type() != XRCTgt {
		t.Errorf("the queue pairs are %v and %v", wc, b.target.Type())
	}
	if attr, err := b.target.Query(); err != nil || attr.Cap != (QPCap{}) {
		t.Errorf("the target has queues: %+v, %v", attr.Cap, err)
	}
}

// TestM4_WrongQueue names a shared receive queue that does not exist, one of another domain, and
// for a key one of another protection domain.
func TestM4_WrongQueue(t *testing.T) {
	for what, c := range map[string]struct {
		srqn   func(b *xrcTarget) SRQN
		status ib.WCStatus
		event  ib.EventType
	}{
		"unknown": {func(b *xrcTarget) SRQN { return b.srqs[0].Number() ^ 1 }, ib.WCRemInvReqErr, ib.EventQPReqErr},
		"other XRC domain": {func(b *xrcTarget) SRQN {
			d, err := b.ctx.OpenXRCDomain()
			must.Do(t, err)
			s, err := b.pd.CreateXRCSRQ(d, b.cqs[0], &SRQInitAttr{MaxWR: 8, MaxSGE: 1})
			must.Do(t, err)
			return s.Number()
		}, ib.WCRemInvReqErr, ib.EventQPReqErr},
		"other protection domain": {func(b *xrcTarget) SRQN { return b.srqs[1].Number() }, ib.WCRemAccessErr, ib.EventQPAccessErr},
		"destroyed": {func(b *xrcTarget) SRQN {
			n := b.srqs[0].Number()
			must.Do(t, b.srqs[0].Destroy())
			return n
		}, ib.WCRemInvReqErr, ib.EventQPReqErr},
	} {
		t.Run(what, func(t *testing.T) {
			a, b := newXRC(t)
			wr := a.write(1, 8, b.endpoint)
			wr.RKey, wr.RemoteAddr, wr.RemoteSRQN = b.mrs[0].RKey(), b.mrs[0].Addr(), c.srqn(b)
			must.Do(t, a.qp.PostSend(wr))
			if wc := a.take(t, 1)[0]; wc.Status != c.status {
				t.Errorf("the request completes with %v, want %v", wc.Status, c.status)
			}
			for _, want := range []ib.EventType{c.event, ib.EventQPLastWQEReached} {
				if ev := b.event(t); ev.Type != want || ev.QP != b.target {
					t.Errorf("the target raises %v, want %v", ev, want)
				}
			}
		})
	}
}

// TestM4_OpenQP opens a target a second time: both handles move it, each hears its events, and it
// ends with the last of them.
func TestM4_OpenQP(t *testing.T) {
	_, b := newXRC(t)
	other, err := b.domain.OpenQP(b.target.QPN())
	must.Do(t, err)
	if other.QPN() != b.target.QPN() || other.State() != ib.RTS {
		t.Errorf("the handle is of %v in %v", other.QPN(), other.State())
	}
	must.Do(t, other.Modify(&QPAttr{State: ib.ERR}, AttrState))
	if st := b.target.State(); st != ib.ERR {
		t.Errorf("the target is in %v", st)
	}
	heard := map[*QP]int{}
	for range 2 {
		ev := b.event(t)
		if ev.Type != ib.EventQPLastWQEReached {
			t.Errorf("the event is %v", ev)
		}
		heard[ev.QP]++
		if ev.QP == other {
			if err := other.Destroy(); !errors.Is(err, ErrBusy) {
				t.Errorf("a handle with an event that is not acknowledged is destroyed: %v", err)
			}
		}
		ev.Ack()
	}
	if heard[other] != 1 || heard[b.target] != 1 {
		t.Errorf("the handles heard %d and %d events", heard[b.target], heard[other])
	}
	n := other.QPN()
	must.Do(t, b.target.Destroy())
	if _, err := b.target.Query(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a handle that is closed still works: %v", err)
	}
	must.Do(t, other.Modify(&QPAttr{State: ib.RESET}, AttrState))
	if err := b.domain.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("the domain of an open target closes: %v", err)
	}
	must.Do(t, other.Destroy())
	if _, err := b.domain.OpenQP(n); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a target that is gone is opened: %v", err)
	}
	for _, s := range b.srqs {
		must.Do(t, s.Destroy())
	}
	must.Do(t, b.domain.Close())
	if err := b.domain.Close(); !errors.Is(err, ErrInvalidXRCD) {
		t.Errorf("a closed domain is closed again: %v", err)
	}
}

// TestM4_OpenOthers opens what is no target of the domain.
func TestM4_OpenOthers(t *testing.T) {
	_, b := newXRC(t)
	d, err := b.ctx.OpenXRCDomain()
	must.Do(t, err)
	for what, n := range map[string]QPN{"a target of another domain": b.target.QPN(), "an RC queue pair": b.qp.QPN(), "nothing": 0, "QP1": 1} {
		if _, err := d.OpenQP(n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s is opened: %v", what, err)
		}
	}
}

// TestM4_Refused creates objects of XRC with what is not theirs.
func TestM4_Refused(t *testing.T) {
	a, b := newXRC(t)
	foreign, err := a.ctx.OpenXRCDomain()
	must.Do(t, err)
	attr := &SRQInitAttr{MaxWR: 1, MaxSGE: 1}
	closed, err := b.ctx.OpenXRCDomain()
	must.Do(t, err)
	must.Do(t, closed.Close())
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"a domain of another adapter":       {second(b.pd.CreateXRCSRQ(foreign, b.cq, attr)), ErrInvalidXRCD},
		"a closed domain":                   {second(b.pd.CreateXRCSRQ(closed, b.cq, attr)), ErrInvalidXRCD},
		"no domain":                         {second(b.pd.CreateXRCSRQ(nil, b.cq, attr)), ErrInvalidXRCD},
		"no CQ":                             {second(b.pd.CreateXRCSRQ(b.domain, nil, attr)), ErrInvalidCQ},
		"no attributes":                     {second(b.pd.CreateXRCSRQ(b.domain, b.cq, nil)), syscall.EINVAL},
		"a target of a closed domain":       {second(closed.CreateQP()), ErrInvalidXRCD},
		"a target of a PD":                  {second(b.pd.CreateQP(b.init(ib.XRCTgt))), ErrInvalidServiceType},
		"an initiator with a receive CQ":    {second(b.pd.CreateQP(&QPInitAttr{Type: XRCIni, SendCQ: b.cq, RecvCQ: b.cq})), ErrInvalidCQ},
		"an initiator without a CQ":         {second(b.pd.CreateQP(&QPInitAttr{Type: XRCIni})), ErrInvalidCQ},
		"an RC queue pair on an SRQ of XRC": {second(b.pd.CreateQP(&QPInitAttr{Type: RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: b.srqs[0]})), ErrInvalidSRQ},
		"a send at a target":                {b.target.PostSend(SendWR{Opcode: ib.WRSend}), syscall.EINVAL},
		"a receive at a target":             {b.target.PostRecv(RecvWR{}), syscall.EINVAL},
		"a receive at an initiator":         {a.qp.PostRecv(RecvWR{}), syscall.EINVAL},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	if n := b.srqs[0].Number(); n == 0 || n == b.srqs[1].Number() {
		t.Errorf("the numbers are %v and %v", n, b.srqs[1].Number())
	}
	plain, err := b.pd.CreateSRQ(attr)
	must.Do(t, err)
	if n := plain.Number(); n != 0 {
		t.Errorf("an SRQ without XRC has the number %v", n)
	}
}
