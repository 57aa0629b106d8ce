package verbs

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// waitLimit bounds every wait for something that must happen.
const waitLimit = time.Minute

// manyCQs share the completion channel of an endpoint.
const manyCQs = 1024

// poll polls a CQ of a working adapter.
func poll(t testing.TB, q *CQ, out []WC) int {
	t.Helper()
	n, err := q.Poll(out)
	must.Do(t, err)
	return n
}

// endpoint is one side of a test connection.
type endpoint struct {
	ctx *Context
	pd  *PD
	cq  *CQ
	qp  *QP
	mr  *MR
	ch  *CompChannel
}

// newEndpoint opens an adapter with the usual objects.
func newEndpoint(t testing.TB, cfg Config, typ ib.QPType) *endpoint {
	t.Helper()
	ctx, err := Open(cfg)
	must.Do(t, err)
	t.Cleanup(func() { _ = ctx.Close() }) // the test may have closed it
	e := &endpoint{ctx: ctx}
	e.fill(t, typ)
	return e
}

// sibling returns another endpoint on the same adapter, with its own objects.
func (e *endpoint) sibling(t testing.TB, typ ib.QPType) *endpoint {
	t.Helper()
	s := &endpoint{ctx: e.ctx}
	s.fill(t, typ)
	return s
}

func (e *endpoint) fill(t testing.TB, typ ib.QPType) {
	t.Helper()
	var err error
	e.ch = NewCompChannel(manyCQs)
	e.pd, err = e.ctx.AllocPD()
	must.Do(t, err)
	e.cq, err = e.ctx.CreateCQ(2048, e.ch)
	must.Do(t, err)
	e.mr, err = e.pd.RegMR(make([]byte, 4<<20), ib.AccessLocalWrite|ib.AccessRemote)
	must.Do(t, err)
	e.qp, err = e.pd.CreateQP(e.init(typ))
	must.Do(t, err)
}

// init returns the attributes with which the endpoint's QP is created.
func (e *endpoint) init(typ ib.QPType) *QPInitAttr {
	return &QPInitAttr{
		Type: typ, SendCQ: e.cq, RecvCQ: e.cq, SQSig: ib.SigAll,
		Cap: QPCap{MaxSendWR: 512, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64},
	}
}

// addresses numbers the loopback addresses that this process has used.
var addresses atomic.Uint32

// loopback returns an address of 127.64.0.0/10 that no other test and no concurrent
// process with these tests uses.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>8&63, pid&255, addresses.Add(1)%250+1)
}

// newPair returns two endpoints on a network in memory, not connected.
func newPair(t testing.TB, typ ib.QPType) (a, b *endpoint) {
	t.Helper()
	n := NewNetwork()
	return newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, typ),
		newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, typ)
}

// newUDPPair returns two endpoints on UDP sockets, not connected.
func newUDPPair(t testing.TB, typ ib.QPType) (a, b *endpoint) {
	t.Helper()
	return newEndpoint(t, Config{Addr: loopback(), Wire: WireUDP}, typ), newEndpoint(t, Config{Addr: loopback(), Wire: WireUDP}, typ)
}

// newHostPair returns two endpoints that communicate as the host prefers: through shared memory on
// Linux, once they have met. They are not connected.
func newHostPair(t testing.TB, typ ib.QPType) (a, b *endpoint) {
	t.Helper()
	return newEndpoint(t, Config{Addr: loopback()}, typ), newEndpoint(t, Config{Addr: loopback()}, typ)
}

// networks are those on which tests with many threads run.
var networks = map[string]func(testing.TB, ib.QPType) (a, b *endpoint){"in process": newPair, "udp": newUDPPair, "host": newHostPair}

// testQKey is the Q_Key of the UD QPs of the tests.
const testQKey = 0x1234

// attrs returns the attributes that connect e's QP to that of peer.
func (e *endpoint) attrs(peer *endpoint) QPAttr {
	return QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush, PathMTU: ib.MTU4096, DestQPN: peer.qp.QPN(),
		RQPSN: ib.NewPSN(100), SQPSN: ib.NewPSN(100), MaxDestRDAtomic: 4, MaxRDAtomic: 4,
		MinRNRTimer: 12, Timeout: 15, RetryCnt: 7, RNRRetry: 7, QKey: testQKey,
		AV: AHAttr{DGID: peer.ctx.QueryGID(0), HopLimit: 64, Port: 1},
	}
}

// steps are the moves to RTS with the attributes of each, by service.
var steps = map[ib.QPType][]struct {
	to   ib.QPState
	mask ib.AttrMask
}{
	ib.RC: {
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
		{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer},
		{ib.RTS, ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic},
	},
	ib.UC: {
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
		{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN},
		{ib.RTS, ib.AttrSQPSN},
	},
	ib.UD: {
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey},
		{ib.RTR, 0},
		{ib.RTS, ib.AttrSQPSN},
	},
}

// walk moves e's QP from RESET towards RTS and stops in the given state.
func (e *endpoint) walk(t testing.TB, attr QPAttr, to ib.QPState) {
	t.Helper()
	for _, s := range steps[e.qp.Type()] {
		if e.qp.State() == to {
			return
		}
		attr.State = s.to
		must.Do(t, e.qp.Modify(&attr, s.mask|ib.AttrState))
	}
}

// move moves e's QP to a state that needs no attributes.
func (e *endpoint) move(t testing.TB, to ib.QPState) {
	t.Helper()
	must.Do(t, e.qp.Modify(&QPAttr{State: to}, ib.AttrState))
}

// connect walks both QPs to RTS. change, if not nil, alters the attributes
// of both.
func connect(t testing.TB, a, b *endpoint, change func(*QPAttr)) {
	t.Helper()
	for _, p := range [][2]*endpoint{{a, b}, {b, a}} {
		attr := p[0].attrs(p[1])
		if change != nil {
			change(&attr)
		}
		p[0].walk(t, attr, ib.RTS)
	}
}

// newConnected returns two endpoints on a network in memory, whose QPs are in RTS.
func newConnected(t testing.TB, typ ib.QPType) (a, b *endpoint) {
	t.Helper()
	a, b = newPair(t, typ)
	connect(t, a, b, nil)
	return a, b
}

// take polls n completions of any status, failing the test after a generous
// time.
func (e *endpoint) take(t testing.TB, n int) []WC {
	t.Helper()
	var all []WC
	buf := make([]WC, 16)
	for end := time.Now().Add(waitLimit); len(all) < n; {
		k := poll(t, e.cq, buf[:min(len(buf), n-len(all))])
		all = append(all, buf[:k]...)
		if k == 0 && time.Now().After(end) {
			t.Fatalf("%d of %d completions after %v; QP is %v", len(all), n, waitLimit, e.qp.State())
		}
	}
	return all
}

// wait polls n completions, which must be successful.
func (e *endpoint) wait(t testing.TB, n int) []WC {
	t.Helper()
	all := e.take(t, n)
	for _, wc := range all {
		if wc.Status != ib.WCSuccess {
			t.Fatalf("completion %+v: %v", wc, wc.Status)
		}
	}
	return all
}

// quiet fails the test if a completion is pending.
func (e *endpoint) quiet(t testing.TB, why string) {
	t.Helper()
	if wc := make([]WC, 1); poll(t, e.cq, wc) != 0 {
		t.Fatalf("%s: completion %+v", why, wc[0])
	}
}

// settle orders the memory accesses of the adapter and of the test before the call
// and after it: one-sided operations have no completion on this side that would
// order them, and the race detector does not see the network.
func (e *endpoint) settle(t testing.TB) {
	t.Helper()
	_, err := e.ctx.Counters()
	must.Do(t, err)
}

// counter returns a counter of the adapter by name.
func (e *endpoint) counter(t testing.TB, name string) uint64 {
	t.Helper()
	all, err := e.ctx.Counters()
	must.Do(t, err)
	for _, c := range all {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// reaches waits until a counter of the adapter has a value.
func (e *endpoint) reaches(t testing.TB, name string, n uint64) {
	t.Helper()
	for end := time.Now().Add(waitLimit); ; runtime.Gosched() {
		v := e.counter(t, name)
		if v == n {
			return
		}
		if v > n || time.Now().After(end) {
			t.Fatalf("%s is %d, want %d", name, v, n)
		}
	}
}

// event returns the next asynchronous event.
func (e *endpoint) event(t testing.TB) AsyncEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	ev, err := e.ctx.GetAsyncEvent(ctx)
	must.Do(t, err)
	return ev
}

// send returns a SEND of n bytes from the start of e's region.
func (e *endpoint) send(id uint64, n uint32) SendWR {
	return SendWR{WRID: id, Opcode: ib.WRSend, SGList: []SGE{e.mr.SGE(0, n)}}
}

// write returns a WRITE of n bytes from the start of e's region to that of
// peer.
func (e *endpoint) write(id uint64, n uint32, peer *endpoint) SendWR {
	return SendWR{
		WRID: id, Opcode: ib.WRRDMAWrite, SGList: []SGE{e.mr.SGE(0, n)},
		RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey(),
	}
}

// recv returns a receive of n bytes at offset off of e's region.
func (e *endpoint) recv(id, off uint64, n uint32) RecvWR {
	return RecvWR{WRID: id, SGList: []SGE{e.mr.SGE(off, n)}}
}
