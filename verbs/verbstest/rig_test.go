package verbstest_test

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

const (
	depth = 16 // requests of a queue of the rig
	qkey  = 0x1234
)

// side is one of the two adapters of a rig.
type side struct {
	name string
	ctx  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
	srq  *verbs.SRQ
	qp   *verbs.QP
}

// rig has two connected queue pairs that are checked. The cases replace what they are about.
type rig struct {
	t     testing.TB
	check verbs.Option
	a, b  *side
	typ   verbs.QPType
	sig   verbs.SigType
	hosts [2]verbs.Config
	buf   []byte            // memory of a case that is not on its stack
	names map[uint64]string // of numbers in the texts of findings

	mu    sync.Mutex // guards what follows
	found []*verbs.Finding
}

// newRig returns a rig whose adapters will be on a network in memory.
func newRig(t testing.TB) *rig {
	n := verbs.NewNetwork()
	return newRigOn(t, [2]verbs.Config{{Network: n, Addr: "10.0.0.1"}, {Network: n, Addr: "10.0.0.2"}})
}

// newRigOn returns a rig without adapters.
func newRigOn(t testing.TB, hosts [2]verbs.Config) *rig {
	r := &rig{t: t, hosts: hosts, names: map[uint64]string{}}
	r.check = verbs.WithCheck(func(f *verbs.Finding) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found = append(r.found, f)
	})
	return r
}

// settings say how a rig is opened.
type settings struct {
	typ    verbs.QPType  // 0: RC
	sig    verbs.SigType // of the queue pairs
	cqes   int
	shared bool                // side b has a shared receive queue
	attr   func(*verbs.QPAttr) // changes the attributes of the connection; nil for no change
}

// open opens the adapters and connects them.
func (r *rig) open(s settings) {
	r.typ, r.sig = cmp.Or(s.typ, verbs.RC), s.sig
	r.a, r.b = r.side(r.hosts[0], "A"), r.side(r.hosts[1], "B")
	for _, e := range []*side{r.a, r.b} {
		var err error
		e.cq, err = e.ctx.CreateCQ(cmp.Or(s.cqes, 128), nil)
		must.Do(r.t, err)
		if s.shared && e == r.b {
			e.srq, err = e.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: depth, MaxSGE: 1})
			must.Do(r.t, err)
		}
		e.qp = e.newQP(r, e.pd)
	}
	r.connect(s.attr)
}

// side opens an adapter.
func (r *rig) side(host verbs.Config, name string) *side {
	ctx, err := verbs.Open(host, r.check)
	must.Do(r.t, err)
	r.t.Cleanup(func() { _ = ctx.Close() }) // the case may have closed it
	e := &side{name: name, ctx: ctx}
	e.pd, err = ctx.AllocPD()
	must.Do(r.t, err)
	e.mr, err = e.pd.RegMR(make([]byte, 64<<10), verbs.AccessLocalWrite|verbs.AccessRemote)
	must.Do(r.t, err)
	r.called(uint64(e.mr.LKey()), "LKEY of "+name)
	r.called(e.mr.Addr(), "ADDRESS of "+name)
	return e
}

// newQP returns a queue pair.
func (e *side) newQP(r *rig, pd *verbs.PD) *verbs.QP {
	q, err := pd.CreateQP(&verbs.QPInitAttr{
		Type: r.typ, SQSig: r.sig, SendCQ: e.cq, RecvCQ: e.cq, SRQ: e.srq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64},
	})
	must.Do(r.t, err)
	r.called(uint64(q.QPN()), "QPN of "+e.name)
	return q
}

// attr returns attributes against which nothing is advised.
func (r *rig) attr() verbs.QPAttr {
	a := verbs.ConnectionAttr()
	a.PathMTU, a.RNRRetry, a.QKey = verbs.MTU4096, 6, qkey
	return a
}

// connect moves both queue pairs to RTS.
func (r *rig) connect(change func(*verbs.QPAttr)) {
	ends := [2]verbs.Endpoint{}
	for i, e := range []*side{r.a, r.b} {
		var err error
		ends[i], err = e.qp.Endpoint(verbs.RandomPSN(), 0)
		must.Do(r.t, err)
	}
	attr := r.attr()
	if change != nil {
		change(&attr)
	}
	for i, e := range []*side{r.a, r.b} {
		must.Do(r.t, e.qp.Connect(ends[i], ends[1-i], attr))
	}
}

// reset connects the queue pairs anew.
func (r *rig) reset() {
	for _, e := range []*side{r.a, r.b} {
		r.drain(e)
		must.Do(r.t, e.qp.Modify(&verbs.QPAttr{State: verbs.RESET}, verbs.AttrState))
	}
	r.connect(nil)
}

// close destroys what is left in the right order, and closes the adapters.
func (r *rig) close() {
	for _, e := range []*side{r.a, r.b} {
		if e.qp != nil {
			r.drain(e)
			must.Do(r.t, e.qp.Destroy())
		}
	}
	for _, e := range []*side{r.a, r.b} {
		for _, end := range []interface{ Destroy() error }{e.srq, e.cq} {
			if s, ok := end.(*verbs.SRQ); !ok || s != nil {
				must.Do(r.t, end.Destroy())
			}
		}
		must.Do(r.t, e.mr.Dereg())
		must.Do(r.t, e.pd.Dealloc())
		must.Do(r.t, e.ctx.Close())
	}
}

// drain polls what has completed.
func (r *rig) drain(e *side) {
	wcs := make([]verbs.WC, depth)
	e.qp.State() // waits until the adapter has nothing to do
	for {
		n, err := e.cq.Poll(wcs)
		must.Do(r.t, err)
		if n == 0 {
			return
		}
	}
}

// want waits for a completion with a status.
func (r *rig) want(q *verbs.CQ, status verbs.WCStatus) {
	r.t.Helper()
	if have := r.completes(q); have != status {
		r.t.Fatalf("a completion has status %v: want %v", have, status)
	}
}

// arrives waits until a completion is in the queue, and leaves it there: the adapter reads the payload no more, and it
// still belongs to the adapter.
func (r *rig) arrives(q *verbs.CQ) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	must.Do(r.t, q.Wait(ctx))
}

// completes waits for a completion and returns its status.
func (r *rig) completes(q *verbs.CQ) verbs.WCStatus {
	r.t.Helper()
	wcs := make([]verbs.WC, 1)
	for end := time.Now().Add(time.Minute); ; {
		n, err := q.Poll(wcs)
		must.Do(r.t, err)
		if n == 1 {
			return wcs[0].Status
		}
		if time.Now().After(end) {
			r.t.Fatal("no completion after a minute")
		}
	}
}

// send returns a SEND of n bytes; write and read do it for a WRITE and a READ.
func (r *rig) send(n uint32) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{r.a.mr.SGE(0, n)}}
}

func (r *rig) write(n uint32) verbs.SendWR {
	wr := r.send(n)
	wr.Opcode, wr.RemoteAddr, wr.RKey = verbs.WRRDMAWrite, r.b.mr.Addr(), r.b.mr.RKey()
	return wr
}

func (r *rig) read(n uint32) verbs.SendWR {
	wr := r.write(n)
	wr.Opcode = verbs.WRRDMARead
	return wr
}

// receive returns a receive of n bytes from offset off on.
func (r *rig) receive(off uint64, n uint32) verbs.RecvWR {
	return verbs.RecvWR{SGList: []verbs.SGE{r.b.mr.SGE(off, n)}}
}

// address returns an address handle of side b.
func (r *rig) address() *verbs.AH {
	ah, err := r.a.pd.CreateAH(verbs.AHAttr{DGID: r.b.ctx.QueryGID(0), HopLimit: 64, Port: 1})
	must.Do(r.t, err)
	return ah
}
