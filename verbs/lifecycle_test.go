package verbs

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// family is an endpoint with one of each other object.
type family struct {
	*endpoint
	srq *SRQ
	ah  *AH
	rdd *RDD
	eec *EEC
	xrc *XRCDomain
}

func newFamily(t *testing.T, e *endpoint) *family {
	t.Helper()
	f := &family{endpoint: e, ah: e.ah(t, e)}
	var err error
	f.srq, err = e.pd.CreateSRQ(&SRQInitAttr{MaxWR: 4, MaxSGE: 1})
	must.Do(t, err)
	f.rdd, err = e.ctx.AllocRDD()
	must.Do(t, err)
	f.eec, err = f.rdd.CreateEEC()
	must.Do(t, err)
	f.xrc, err = e.ctx.OpenXRCDomain()
	must.Do(t, err)
	return f
}

// second returns the error of a call that also returns a value.
func second[T any](_ T, err error) error { return err }

// calls are all the calls that return an error, by name.
func (f *family) calls() map[string]func() error {
	init := &QPInitAttr{Type: ib.RC, SendCQ: f.cq, RecvCQ: f.cq}
	return map[string]func() error{
		"Context.AllocPD":        func() error { return second(f.ctx.AllocPD()) },
		"Context.CreateCQ":       func() error { return second(f.ctx.CreateCQ(4, nil)) },
		"Context.CreateCQ on ch": func() error { return second(f.ctx.CreateCQ(4, f.ch)) },
		"Context.QueryDevice":    func() error { return second(f.ctx.QueryDevice()) },
		"Context.QueryPort":      func() error { return second(f.ctx.QueryPort()) },
		"Context.Counters":       func() error { return second(f.ctx.Counters()) },
		"Context.PollAsyncEvent": func() error { return second(f.ctx.PollAsyncEvent()) },
		"Context.GetAsyncEvent":  func() error { return second(f.ctx.GetAsyncEvent(context.Background())) },
		"Context.Close":          func() error { return f.ctx.Close() },
		"PD.RegMR":               func() error { return second(f.pd.RegMR(make([]byte, 8), 0)) },
		"PD.RegMREx":             func() error { return second(f.pd.RegMREx(&MRAttr{Buf: make([]byte, 8), IOVA: 64})) },
		"PD.CreateQP":            func() error { return second(f.pd.CreateQP(init)) },
		"PD.CreateSRQ":           func() error { return second(f.pd.CreateSRQ(&SRQInitAttr{MaxWR: 1})) },
		"PD.CreateAH":            func() error { return second(f.pd.CreateAH(AHAttr{})) },
		"PD.Dealloc":             func() error { return f.pd.Dealloc() },
		"MR.ReregAccess":         func() error { return f.mr.ReregAccess(0) },
		"MR.ReregPD":             func() error { return f.mr.ReregPD(f.pd) },
		"MR.ReregMemory":         func() error { return f.mr.ReregMemory(make([]byte, 8)) },
		"MR.Dereg":               func() error { return f.mr.Dereg() },
		"Context.AllocRDD":       func() error { return second(f.ctx.AllocRDD()) },
		"RDD.CreateEEC":          func() error { return second(f.rdd.CreateEEC()) },
		"RDD.Dealloc":            func() error { return f.rdd.Dealloc() },
		"EEC.Modify":             func() error { return f.eec.Modify(&QPAttr{State: ib.ERR}, ib.AttrState) },
		"EEC.ModifyToRTS":        func() error { return f.eec.ModifyToRTS(QPAttr{}) },
		"EEC.Query":              func() error { return second(f.eec.Query()) },
		"EEC.Destroy":            func() error { return f.eec.Destroy() },
		"Context.OpenXRCDomain":  func() error { return second(f.ctx.OpenXRCDomain()) },
		"XRCDomain.CreateQP":     func() error { return second(f.xrc.CreateQP()) },
		"XRCDomain.OpenQP":       func() error { return second(f.xrc.OpenQP(2)) },
		"XRCDomain.Close":        func() error { return f.xrc.Close() },
		"PD.CreateXRCSRQ":        func() error { return second(f.pd.CreateXRCSRQ(f.xrc, f.cq, &SRQInitAttr{MaxWR: 1})) },
		"AH.Destroy":             func() error { return f.ah.Destroy() },
		"CQ.Poll":                func() error { return second(f.cq.Poll(make([]WC, 4))) },
		"CQ.ReqNotify":           func() error { return f.cq.ReqNotify(false) },
		"CQ.Resize":              func() error { return f.cq.Resize(8) },
		"CQ.Destroy":             func() error { return f.cq.Destroy() },
		"SRQ.PostRecv":           func() error { return f.srq.PostRecv(RecvWR{}) },
		"SRQ.SetLimit":           func() error { return f.srq.SetLimit(1) },
		"SRQ.Destroy":            func() error { return f.srq.Destroy() },
		"QP.Modify":              func() error { return f.qp.Modify(&QPAttr{State: ib.ERR}, ib.AttrState) },
		"QP.Query":               func() error { return second(f.qp.Query()) },
		"QP.PostSend":            func() error { return f.qp.PostSend(SendWR{}) },
		"QP.PostRecv":            func() error { return f.qp.PostRecv(RecvWR{}) },
		"QP.Destroy":             func() error { return f.qp.Destroy() },
	}
}

// TestCallsAfterClose makes every call on the objects of a closed adapter: each
// returns an error, none panics or hangs.
func TestCallsAfterClose(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	f := newFamily(t, a)
	must.Do(t, f.ctx.Close())
	for name, call := range f.calls() {
		must.Fail(t, call(), ErrInvalidHCA, name+" after Close")
	}
	if g, k := f.ctx.QueryGID(0), f.ctx.QueryPKey(0); !g.IsZero() || k != 0 {
		t.Errorf("GID %v, P_Key %#x after Close", g, k)
	}
	must.Do(t, f.ctx.CaptureErr())
}

// TestCallsOnDestroyedObjects makes every call on destroyed objects of an open
// adapter.
func TestCallsOnDestroyedObjects(t *testing.T) {
	a, b := newPair(t, ib.RC)
	f := newFamily(t, a)
	for _, end := range []func() error{f.qp.Destroy, f.srq.Destroy, f.ah.Destroy, f.mr.Dereg, f.cq.Destroy, f.pd.Dealloc, f.eec.Destroy, f.rdd.Dealloc, f.xrc.Close} {
		must.Do(t, end())
	}
	for name, call := range f.calls() {
		if name[:len("Context")] == "Context" {
			continue
		}
		err := call()
		must.Fail(t, err, syscall.EINVAL, name+" on an object that is gone")
		if errors.Is(err, ErrInvalidHCA) {
			t.Errorf("%s on an object that is gone blames the adapter: %v", name, err)
		}
	}
	other := a.sibling(t, ib.RC) // the adapter still works
	connect(t, other, b, nil)
	testWrite(t, other, b)
}

// TestCallsOnNil makes every call on nil, like a program that continues after an
// error.
func TestCallsOnNil(t *testing.T) {
	f := &family{endpoint: &endpoint{}}
	for name, call := range f.calls() {
		if err := call(); err == nil {
			t.Errorf("%s on nil succeeded", name)
		}
	}
	a, _ := newPair(t, ib.RC)
	must.Fail(t, a.qp.Modify(nil, ib.AttrState), syscall.EINVAL, "modify to nothing")
	must.Fail(t, a.mr.ReregPD(nil), ErrInvalidPD, "move a region to no PD")
	must.Do(t, a.qp.Modify(&QPAttr{State: ib.RESET}, ib.AttrState)) // the adapter still works
}

// TestCloseWithWorkOutstanding closes an adapter while other goroutines use it: all
// calls return, and no goroutine is left.
func TestCloseWithWorkOutstanding(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, where := range []string{"in process", "udp", "host"} {
		t.Run(where, func(t *testing.T) {
			n := NewNetwork()
			cfg := [2]Config{{Addr: "10.0.0.1", Network: n}, {Addr: "10.0.0.2", Network: n}}
			switch where {
			case "udp":
				cfg = [2]Config{{Addr: loopback(), Wire: WireUDP}, {Addr: loopback(), Wire: WireUDP}}
			case "host":
				cfg = [2]Config{{Addr: loopback()}, {Addr: loopback()}}
			}
			for round := range 10 {
				a, b := newEndpoint(t, cfg[0], ib.RC), newEndpoint(t, cfg[1], ib.RC)
				connect(t, a, b, nil)
				var all sync.WaitGroup
				for _, work := range []func() error{
					func() error { return a.qp.PostSend(a.write(1, 1<<20, b)) },
					func() error { return a.qp.PostRecv(a.recv(1, 0, 8)) },
					func() error { return second(a.cq.Poll(make([]WC, 4))) },
					func() error { return second(a.ctx.GetAsyncEvent(context.Background())) },
					func() error { return a.qp.Modify(&QPAttr{State: ib.RTS}, ib.AttrState) },
				} {
					all.Go(func() {
						for {
							err := work()
							if errors.Is(err, syscall.ENODEV) {
								return
							}
							if err != nil && !errors.Is(err, syscall.ENOMEM) {
								t.Errorf("before ENODEV: %v", err)
								return
							}
						}
					})
				}
				spin(round)
				must.Do(t, a.ctx.Close())
				all.Wait()
				must.Do(t, b.ctx.Close())
			}
		})
	}
}

// TestNoGoroutinePerQP counts goroutines with many connected QPs.
func TestNoGoroutinePerQP(t *testing.T) {
	a, b := newPair(t, ib.RC)
	before := goleak.IgnoreCurrent()
	for range 200 {
		init := a.init(ib.RC)
		init.Cap = QPCap{MaxSendWR: 1, MaxSendSGE: 1}
		q, err := a.pd.CreateQP(init)
		must.Do(t, err)
		e := *a
		e.qp = q
		e.walk(t, e.attrs(b), ib.RTS)
		must.Do(t, q.PostSend(e.write(1, 8, b)))
	}
	goleak.VerifyNone(t, before)
}

// TestDeviceFatal makes an adapter fail: DEVICE_FATAL comes once, every call returns
// EIO, and Close works.
func TestDeviceFatal(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Trace: func(r *TraceRecord) {
		if r.WRID == 0xbad {
			panic("a broken invariant")
		}
	}}, ib.RC)
	f := newFamily(t, a)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
	connect(t, a, b, nil)
	must.Do(t, a.qp.PostSend(a.write(0xbad, 8, b)))
	ev := a.event(t)
	if ev.Type != ib.EventDeviceFatal {
		t.Fatalf("event %v, want DEVICE_FATAL", ev)
	}
	must.Fail(t, ev.Err, syscall.EIO, "the cause of DEVICE_FATAL")
	ev.Ack()
	for name, call := range f.calls() {
		switch name {
		case "Context.Close", "Context.QueryDevice", "Context.QueryPort", "Context.GetAsyncEvent":
			continue // still work, or would wait
		case "Context.PollAsyncEvent":
			must.Fail(t, call(), syscall.EAGAIN, "DEVICE_FATAL is told once")
		default:
			must.Fail(t, call(), syscall.EIO, name+" on a device that has failed")
		}
	}
	must.Do(t, a.ctx.Close())
	must.Do(t, b.ctx.Close())
}
