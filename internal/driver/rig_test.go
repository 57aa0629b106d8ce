package driver

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
)

// waitLimit bounds every wait for something that must come.
const waitLimit = 20 * time.Second

// errBroken is what a port of these tests fails with.
var errBroken = errors.New("the network is gone")

// troublePort is a port on a network in memory that fails on request, and
// records how the driver waits on it.
type troublePort struct {
	fabric.Port
	blocks   atomic.Int32 // sends that are still refused with ErrBlocked
	lying    atomic.Bool  // Receive returns a larger number than its buffers
	failSend atomic.Bool
	failRecv atomic.Bool
	failWait atomic.Bool
	onSend   atomic.Pointer[func()] // called by every Send
	onRecv   atomic.Pointer[func()] // called by every Receive, before it looks
	onWait   atomic.Pointer[func()] // called by every Wait, before it waits

	mu    sync.Mutex // guards what follows
	waits waitCounts
}

// waitCounts counts calls of Wait by what they waited for.
type waitCounts struct{ forever, writing int }

func (p *troublePort) Send(b *fabric.Batch) error {
	if f := p.onSend.Load(); f != nil {
		(*f)()
	}
	switch {
	case p.failSend.Load():
		return errBroken
	case p.blocks.Load() > 0:
		p.blocks.Add(-1)
		return fabric.ErrBlocked
	}
	return p.Port.Send(b)
}

func (p *troublePort) Receive(ds []fabric.Datagram) (int, error) {
	if f := p.onRecv.Load(); f != nil {
		(*f)()
	}
	switch {
	case p.failRecv.Load():
		return 0, errBroken
	case p.lying.Load():
		return len(ds) + 1, nil
	}
	return p.Port.Receive(ds)
}

func (p *troublePort) Wait(timeout time.Duration, read, write bool) error {
	p.mu.Lock()
	switch {
	case write:
		p.waits.writing++
	case timeout < 0:
		p.waits.forever++
	}
	p.mu.Unlock()
	if p.failWait.Load() {
		return errBroken
	}
	if f := p.onWait.Load(); f != nil {
		(*f)()
	}
	return p.Port.Wait(timeout, read, write)
}

// waited returns the counts so far.
func (p *troublePort) waited() waitCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}

// side is a driven adapter with the usual objects.
type side struct {
	addr         netip.Addr
	port         *troublePort
	hca          *hca.HCA
	drv          *Driver
	pd           *hca.PD
	cq           *qp.CQ
	qp           *qp.QP
	mr           *memory.Region
	buf          []byte
	trace        atomic.Pointer[func(*trace.Record)]
	fatal        chan error    // has the cause when the device dies
	event        chan struct{} // has an element when the armed CQ gets a completion
	still        bool          // the driver's goroutine does not run
	suppressible bool          // postSend rings no doorbell that it is spared
}

func newSide(t testing.TB, n *pipe.Network, last byte) *side {
	t.Helper()
	s := newStillSide(t, n, last)
	s.still = false
	s.drv.Run()
	return s
}

// newStillSide is newSide without the driver's goroutine: what that would do, the test does.
func newStillSide(t testing.TB, n *pipe.Network, last byte) *side {
	t.Helper()
	s := &side{
		still: true,
		addr:  netip.AddrFrom4([4]byte{10, 0, 0, last}), buf: make([]byte, 64<<10),
		fatal: make(chan error, 10), event: make(chan struct{}, 10),
	}
	p, err := n.Port(s.addr)
	must.Do(t, err)
	s.port = &troublePort{Port: p}
	s.hca, err = hca.New(hca.Config{
		NodeGUID: uint64(last), Caps: p.Caps(), Rand: rand.New(rand.NewPCG(uint64(last), 1)).Uint32,
		Trace: func(r *trace.Record) {
			if f := s.trace.Load(); f != nil {
				(*f)(r)
			}
		},
	})
	must.Do(t, err)
	s.drv = New([]fabric.Port{s.port}, s.hca.Shard(), s.hca, func(cause error) { s.fatal <- cause })
	t.Cleanup(func() { _ = s.drv.Close() }) // tests close it too
	must.Do(t, s.drv.Control(func(clock.Instant) {
		s.pd, err = s.hca.AllocPD()
		must.Do(t, err)
		s.cq, err = s.hca.CreateCQ(64, func() { s.event <- struct{}{} })
		must.Do(t, err)
		s.mr, err = s.pd.RegMR(memory.RegionConfig{Buf: s.buf, Access: ib.AccessLocalWrite | ib.AccessRemote})
		must.Do(t, err)
		s.qp, err = s.hca.CreateQP(s.pd, hca.QPConfig{
			Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, SigAll: true,
			Cap: ib.QPCap{MaxSendWR: 16, MaxSendSGE: 1, MaxRecvWR: 1, MaxRecvSGE: 1},
		})
		must.Do(t, err)
	}))
	return s
}

func (s *side) do(t testing.TB, f func(now clock.Instant)) {
	t.Helper()
	must.Do(t, s.drv.Do(f))
}

// connect walks s's QP to RTS towards a peer. timeout is the code of the
// retry timer.
func (s *side) connect(t testing.TB, peer *side, timeout, retries uint8) {
	t.Helper()
	a := ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU1024, DestQPN: peer.qp.Num(),
		MaxDestRDAtomic: 1, MaxRDAtomic: 1, Timeout: timeout, RetryCnt: retries, RNRRetry: 7,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(peer.addr), HopLimit: 64, Port: 1},
	}
	for _, step := range []struct {
		to   ib.QPState
		mask ib.AttrMask
	}{
		{ib.INIT, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrAccessFlags},
		{ib.RTR, ib.AttrAV | ib.AttrPathMTU | ib.AttrDestQPN | ib.AttrRQPSN | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer},
		{ib.RTS, ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrSQPSN | ib.AttrMaxRDAtomic},
	} {
		a.State = step.to
		s.do(t, func(now clock.Instant) {
			must.Do(t, s.qp.Modify(now, &a, step.mask|ib.AttrState))
		})
	}
}

// post posts a WRITE of n bytes to peer.
func (s *side) post(t testing.TB, peer *side, n uint32) {
	t.Helper()
	_, err := s.qp.PostSend(ib.SendWR{
		Opcode: ib.WRRDMAWrite, SGList: []ib.SGE{{Addr: s.mr.Addr(), Length: n, LKey: s.mr.LKey()}},
		RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey(),
	})
	must.Do(t, err)
	s.drv.Post(s.qp, qp.Posted{})
}

// completion waits for the next completion without running the shard.
func (s *side) completion(t testing.TB) ib.WC {
	t.Helper()
	wc := make([]ib.WC, 1)
	await(t, "a completion", func() bool { return s.cq.Poll(wc) == 1 })
	return wc[0]
}

// sleep waits for the event of the armed CQ and takes a completion.
func (s *side) sleep(t testing.TB) {
	t.Helper()
	select {
	case <-s.event:
	case <-time.After(waitLimit):
		t.Fatal("nobody woke who sleeps")
	}
	if wc := s.completion(t); wc.Status != ib.WCSuccess {
		t.Fatalf("completion %+v", wc)
	}
}

// await waits until ok returns true.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s did not come within %v", what, waitLimit)
		}
	}
}

// idle waits until the goroutine waits forever.
func (s *side) idle(t testing.TB) {
	t.Helper()
	before := s.port.waited().forever
	s.port.Wake() // one more round, so that a wait of this time is seen
	await(t, "an idle driver", func() bool { return s.port.waited().forever > before })
}
