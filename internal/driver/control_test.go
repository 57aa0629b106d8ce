package driver

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

const testService = mad.ServiceID(0x1234)

// hold makes a thread run the control plane of s until release is called, which waits for the
// thread.
func (s *side) hold(t *testing.T) (release func()) {
	t.Helper()
	held, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.drv.Control(func(clock.Instant) {
			close(held)
			<-end
		})
	}()
	<-held
	return sync.OnceFunc(func() {
		close(end)
		must.Do(t, <-ended)
	})
}

// listen makes s listen for connections.
func (s *side) listen(t *testing.T, h cm.Handler) {
	t.Helper()
	must.Do(t, s.drv.Control(func(clock.Instant) {
		_, err := s.hca.CM().Listen(testService, h)
		must.Do(t, err)
	}))
}

// request sends REQs from s for a queue pair that does not exist, one from each of n
// connections.
func (s *side) request(t *testing.T, peer *side, n int, h cm.Handler) {
	t.Helper()
	must.Do(t, s.drv.Control(func(now clock.Instant) {
		for i := range n {
			must.Do(t, s.hca.CM().NewConn(h).SendREQ(now, &cm.REQParams{
				Service: testService, QPN: ib.QPN(0x1000 + i), Path: cm.Path{Local: s.addr, Remote: peer.addr, MTU: ib.MTU1024},
			}))
		}
	}))
}

// writes has n WRITEs from s to peer complete.
func (s *side) writes(t *testing.T, peer *side, n int) {
	t.Helper()
	for range n {
		s.post(t, peer, 64)
		if wc := s.completion(t); wc.Status != ib.WCSuccess {
			t.Fatalf("completion %+v", wc)
		}
	}
}

// connected returns two sides with connected queue pairs.
func connected(t *testing.T) (a, b *side) {
	t.Helper()
	a, b = newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	return a, b
}

// TestDataFlowsWhileControlIsBusy keeps the control planes of both adapters busy: WRITEs
// complete meanwhile. A REQ that arrives meanwhile waits, and is processed afterwards.
func TestDataFlowsWhileControlIsBusy(t *testing.T) {
	a, b := connected(t)
	var requests atomic.Int32
	b.listen(t, func(now clock.Instant, c *cm.Conn, _ *cm.Event) {
		requests.Add(1)
		c.Destroy(now)
	})
	releaseB := b.hold(t)
	a.request(t, b, 3, nil)
	releaseA := a.hold(t)
	a.writes(t, b, 1000)
	await(t, "the REQs", b.hca.Handed)
	b.idle(t)
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were processed while another thread ran the control plane", n)
	}
	releaseB()
	if n := requests.Load(); n != 3 {
		t.Errorf("%d of 3 requests were processed when the thread was done", n)
	}
	releaseA()
	await(t, "the REJs", func() (all bool) {
		must.Do(t, a.drv.Control(func(clock.Instant) { all = a.hca.CM().Conns() == 0 }))
		return all
	})
}

// TestDataFlowsInStorm stops the control plane in the middle of thousands of REQs: what a thread
// that polls receives then still reaches its queue pair. Of the REQs a bounded number waits, and
// the others are dropped and counted.
func TestDataFlowsInStorm(t *testing.T) {
	const storm = 3 * 1024
	a, b := connected(t)
	var requests atomic.Int64
	began, end := make(chan struct{}), make(chan struct{})
	b.listen(t, func(now clock.Instant, c *cm.Conn, _ *cm.Event) {
		if requests.Add(1) == 1 {
			close(began)
			<-end
		}
		c.Forget(now)
	})
	a.request(t, b, 1, nil)
	<-began // the goroutine of b is in the handler
	for range storm / 256 {
		a.request(t, b, 256, nil)
		for range 4 {
			a.post(t, b, 64)
			if wc := poll(t, a, b); wc.Status != ib.WCSuccess {
				t.Fatalf("completion %+v", wc)
			}
		}
	}
	dropped := func() (n uint64) {
		b.do(t, func(clock.Instant) { n = b.hca.Counters().Drops[counters.DropMADQueue] })
		return n
	}
	for dropped() < storm-1024 {
		b.drv.Progress()
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests were processed during the first", n)
	}
	close(end)
	await(t, "the requests that wait", func() bool { return requests.Load() == 1+1024 })
	if n := dropped(); n != storm-1024 {
		t.Errorf("%d of %d REQs were dropped, want all but 1024", n, storm)
	}
}

// poll polls both sides until a has a completion.
func poll(t testing.TB, a, b *side) ib.WC {
	t.Helper()
	wc := make([]ib.WC, 1)
	for end := time.Now().Add(waitLimit); a.cq.Poll(wc) == 0; {
		b.drv.Progress()
		a.drv.Progress()
		if time.Now().After(end) {
			t.Fatalf("no completion within %v", waitLimit)
		}
	}
	return wc[0]
}

// TestControlTimers lets a timer of the connection manager become due while a thread runs the
// control plane: the goroutine neither fires it nor waits actively, and that thread fires it
// when it is done.
func TestControlTimers(t *testing.T) {
	a, b := newSides(t)
	var events atomic.Int32
	must.Do(t, a.drv.Control(func(now clock.Instant) {
		must.Do(t, a.hca.CM().NewConn(func(_ clock.Instant, _ *cm.Conn, e *cm.Event) {
			if e.Type == cm.REQError {
				events.Add(1)
			}
		}).SendREQ(now, &cm.REQParams{
			Service: testService, QPN: 0x1000, ResponseTimeout: 10, MaxRetries: 1,
			Path: cm.Path{Local: a.addr, Remote: b.addr.Next(), MTU: ib.MTU1024, Lifetime: 1},
		}))
	}))
	release := a.hold(t)
	await(t, "the deadline", func() bool { return a.drv.control.late.Load() })
	a.idle(t)
	if n := events.Load(); n != 0 {
		t.Errorf("%d events while another thread ran the control plane", n)
	}
	release()
	await(t, "the end of the attempts", func() bool { return events.Load() == 1 })
}

// TestTimerAfterALateOne fires a late timer at the end of a call. The goroutine, which waits
// without a deadline, must learn of the next timer, although nothing is sent.
func TestTimerAfterALateOne(t *testing.T) {
	a, b := newSides(t)
	var ended atomic.Int32
	must.Do(t, a.drv.Control(func(now clock.Instant) {
		agent, err := a.hca.GSI().Register(gsi.AgentConfig{Class: mad.ClassPerf, Version: 1})
		must.Do(t, err)
		for i, wait := range []time.Duration{time.Millisecond, 300 * time.Millisecond} {
			m := new(mad.MAD)
			m.PutHeader(mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet, TID: agent.TID(uint32(i))})
			_, err := agent.Request(now, gsi.Address{Remote: b.addr.Next()}, m, gsi.Retry{Timeout: wait}, func(clock.Instant, *gsi.Received, error) { ended.Add(1) })
			must.Do(t, err)
		}
	}))
	release := a.hold(t)
	await(t, "the deadline", func() bool { return a.drv.control.late.Load() })
	a.idle(t)
	release()
	await(t, "both timers", func() bool { return ended.Load() == 2 })
}

// TestFirstRequestEstablishes connects two queue pairs without an RTU: the first request
// replaces it. The passive side has the event before the request is executed. If a thread runs
// the control plane then, the request does not wait for the event, which follows.
func TestFirstRequestEstablishes(t *testing.T) {
	for name, busy := range map[string]bool{"control plane free": false, "control plane busy": true} {
		t.Run(name, func(t *testing.T) {
			a, b := newSides(t)
			events := make(chan cm.EventType, 16)
			b.listen(t, func(now clock.Instant, c *cm.Conn, e *cm.Event) {
				if e.Type == cm.REQReceived {
					must.Do(t, b.hca.Establish(now, c, b.qp))
					must.Do(t, c.SendREP(now, &cm.REPParams{QPN: b.qp.Num()}))
				}
				events <- e.Type
			})
			ready := make(chan struct{})
			must.Do(t, a.drv.Control(func(now clock.Instant) {
				c := a.hca.CM().NewConn(func(now clock.Instant, c *cm.Conn, e *cm.Event) {
					must.Do(t, a.hca.Establish(now, c, a.qp)) // and no RTU
					close(ready)
				})
				must.Do(t, c.SendREQ(now, &cm.REQParams{
					Service: testService, QPN: a.qp.Num(), RetryCount: 7, Path: cm.Path{Local: a.addr, Remote: b.addr, MTU: ib.MTU1024},
				}))
			}))
			<-ready
			if e := <-events; e != cm.REQReceived {
				t.Fatalf("event %v", e)
			}
			release := func() {}
			if busy {
				release = b.hold(t)
			}
			var before atomic.Int32 // events before the first packet of b's queue pair, the acknowledgement
			before.Store(-1)
			count := func(r *trace.Record) {
				if r.Kind == trace.PacketOut && r.QPN == b.qp.Num() {
					before.CompareAndSwap(-1, int32(len(events)))
				}
			}
			b.trace.Store(&count)
			a.writes(t, b, 1)
			if n := before.Load(); n < 0 || busy == (n > 0) {
				t.Errorf("%d events before the acknowledgement", n)
			}
			release()
			if e := <-events; e != cm.UserEstablished {
				t.Errorf("event %v", e)
			}
		})
	}
}

// TestDiesInControl breaks an invariant in the control plane: the device is dead, as after one
// in the shard.
func TestDiesInControl(t *testing.T) {
	a, _ := newSides(t)
	if err := a.drv.Control(func(clock.Instant) { panic("broken") }); !errors.Is(err, ErrDead) {
		t.Errorf("the call returns %v", err)
	}
	select {
	case err := <-a.fatal:
		if !errors.Is(err, ErrDead) {
			t.Errorf("the cause is %v", err)
		}
	case <-time.After(waitLimit):
		t.Fatal("nobody was told that the device is dead")
	}
	for name, err := range map[string]error{"Control": a.drv.Control(func(clock.Instant) {}), "Do": a.drv.Do(func(clock.Instant) {}), "Enter": a.drv.Enter(func() error { return nil })} {
		if !errors.Is(err, ErrDead) {
			t.Errorf("%s of a dead device returns %v", name, err)
		}
	}
	must.Do(t, a.drv.Close())
	if len(a.fatal) != 0 {
		t.Error("the end was reported twice")
	}
}

// TestObjectsComeAndGoAmongData creates and destroys objects and connections of both adapters,
// and calls verbs of a queue pair, while WRITEs flow between two other queue pairs.
func TestObjectsComeAndGoAmongData(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	a, b := connected(t)
	var refused atomic.Int32
	b.listen(t, func(now clock.Instant, c *cm.Conn, _ *cm.Event) { c.Destroy(now) })
	var all sync.WaitGroup
	done := make(chan struct{})
	for _, s := range []*side{a, b} {
		all.Go(func() {
			for range rounds {
				s.comeAndGo(t)
			}
		})
		all.Go(func() {
			for range rounds {
				s.do(t, func(clock.Instant) {
					if st := s.qp.Query().State; st != ib.RTS {
						t.Errorf("the queue pair is in %v", st)
					}
				})
			}
		})
	}
	all.Go(func() {
		for range rounds / 10 {
			a.request(t, b, 10, func(clock.Instant, *cm.Conn, *cm.Event) { refused.Add(1) })
		}
	})
	go func() {
		all.Wait()
		close(done)
	}()
	n := 0
	for running := true; running; n++ {
		a.writes(t, b, 1)
		select {
		case <-done:
			running = false
		default:
		}
	}
	await(t, "the REJs", func() bool { return int(refused.Load()) == rounds/10*10 })
	if n < 2 {
		t.Errorf("%d WRITEs during %d rounds", n, rounds)
	}
	for _, s := range []*side{a, b} {
		must.Do(t, s.drv.Control(func(clock.Instant) {
			if r := s.hca.Resources(); r.QPs != 1 || r.CQs != 1 || r.MRs != 1 || r.PDs != 1 {
				t.Errorf("left are %+v", r)
			}
		}))
	}
}

// comeAndGo creates and destroys one object of each kind.
func (s *side) comeAndGo(t *testing.T) {
	must.Do(t, s.drv.Control(func(now clock.Instant) {
		pd, err := s.hca.AllocPD()
		must.Do(t, err)
		cq, err := s.hca.CreateCQ(64, nil)
		must.Do(t, err)
		q, err := s.hca.CreateQP(pd, hca.QPConfig{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: ib.QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: 4, MaxRecvSGE: 1}})
		must.Do(t, err)
		must.Do(t, s.hca.Prepare(now, q))
		mr, err := pd.RegMR(memory.RegionConfig{Buf: make([]byte, 64), Access: ib.AccessLocalWrite})
		must.Do(t, err)
		srq, err := pd.CreateSRQ(4, 1, 0)
		must.Do(t, err)
		ah, err := pd.CreateAH(&ib.AHAttr{DGID: ib.GIDFromAddr(s.addr), Port: 1, HopLimit: 64})
		must.Do(t, err)
		must.Do(t, s.hca.CQs().Resize(cq, 128))
		must.Do(t, pd.DestroyAH(ah))
		must.Do(t, pd.DestroySRQ(srq))
		must.Do(t, pd.DeregMR(mr))
		must.Do(t, s.destroyQP(pd, q))
		must.Do(t, s.hca.CQs().Destroy(cq))
		must.Do(t, pd.Dealloc())
	}))
}

func (s *side) destroyQP(pd *hca.PD, q *qp.QP) error {
	return s.hca.Enter(func() error {
		s.hca.DestroyQP(pd, q)
		return nil
	})
}
