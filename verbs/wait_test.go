package verbs

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// waitContext ends with the test, or after a time that no slow machine needs: then a
// wake-up was lost.
func waitContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// newWaitPair returns two connected endpoints, the second with a CQ for its
// receives that has no completion channel.
func newWaitPair(t *testing.T) (a, b *endpoint, cq *CQ) {
	t.Helper()
	a, b = newPair(t, ib.RC)
	cq, err := b.ctx.CreateCQ(512, nil) // more entries than messages
	must.Do(t, err)
	b.qp, err = b.pd.CreateQP(&QPInitAttr{Type: ib.RC, SendCQ: b.cq, RecvCQ: cq, Cap: QPCap{MaxRecvWR: 64, MaxRecvSGE: 1}})
	must.Do(t, err)
	// On a busy machine the connection must not time out.
	connect(t, a, b, func(attr *QPAttr) { attr.Timeout = 19 })
	return a, b, cq
}

// TestWaitSleepsUntilACompletion sends each message after the receiver has taken the
// previous one: a lost wake-up stops the test.
func TestWaitSleepsUntilACompletion(t *testing.T) {
	const messages = 200
	a, b, cq := newWaitPair(t)
	ready := make(chan struct{})
	go func() {
		for range ready {
			if err := a.qp.PostSend(SendWR{Opcode: ib.WRSend}); err != nil {
				t.Error(err)
			}
		}
	}()
	defer close(ready)
	for i := range messages {
		must.Do(t, b.qp.PostRecv(RecvWR{WRID: uint64(i)}))
		ready <- struct{}{}
		wc := make([]WC, 2)
		for n := 0; n == 0; n = poll(t, cq, wc) {
			if err := cq.Wait(waitContext(t)); err != nil {
				t.Fatalf("message %d of %d: %v; %d completions", i, messages, err, cq.obj.CQ.Pending())
			}
		}
		if wc[0].WRID != uint64(i) || wc[0].Status != ib.WCSuccess {
			t.Fatalf("completion %d is %+v", i, wc[0])
		}
	}
}

// TestWaitOfSeveral takes the completions of one CQ one at a time in four goroutines:
// none may sleep while completions are left.
func TestWaitOfSeveral(t *testing.T) {
	const messages = 400
	a, b, cq := newWaitPair(t)
	ctx, cancel := context.WithCancelCause(waitContext(t))
	defer cancel(nil)
	enough := errors.New("all are here")
	var got atomic.Int32
	done := make(chan error)
	for range 4 {
		go func() {
			wc := make([]WC, 1)
			for {
				if err := cq.Wait(ctx); err != nil {
					done <- err
					return
				}
				n, err := cq.Poll(wc)
				if err != nil || got.Add(int32(n)) == messages {
					cancel(cmp.Or(err, enough))
				}
			}
		}()
	}
	for range messages / 40 {
		for range 40 {
			must.Do(t, b.qp.PostRecv(RecvWR{}))
			must.Do(t, a.qp.PostSend(SendWR{Opcode: ib.WRSend}))
		}
		a.wait(t, 40)
	}
	for range 4 {
		must.Fail(t, <-done, enough, "a goroutine that waits")
	}
	if n := got.Load(); n != messages {
		t.Errorf("%d completions were taken, want %d", n, messages)
	}
}

// TestWaitEnds checks the other ends of a wait, before it sleeps and while it sleeps, also
// for goroutines that wait for their turn.
func TestWaitEnds(t *testing.T) {
	stopped := errors.New("the program stops")
	for _, c := range []struct {
		name string
		end  func(e *endpoint, cq *CQ, cancel context.CancelCauseFunc) error
		want error
	}{
		{"context", func(_ *endpoint, _ *CQ, cancel context.CancelCauseFunc) error { cancel(stopped); return nil }, stopped},
		{"destroy", func(_ *endpoint, cq *CQ, _ context.CancelCauseFunc) error { return cq.Destroy() }, ErrInvalidCQ},
		{"close", func(e *endpoint, _ *CQ, _ context.CancelCauseFunc) error { return e.ctx.Close() }, ErrInvalidHCA},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
			cq, err := e.ctx.CreateCQ(4, nil)
			must.Do(t, err)
			ctx, cancel := context.WithCancelCause(waitContext(t))
			defer cancel(nil)
			done := make(chan error)
			for range 3 {
				go func() { done <- cq.Wait(ctx) }()
			}
			for len(cq.waiter.turn) == 0 || !cq.armed.Load() {
				if ctx.Err() != nil {
					t.Fatal("nobody waits")
				}
				runtime.Gosched()
			}
			must.Do(t, c.end(e, cq, cancel))
			for range 3 {
				must.Fail(t, <-done, c.want, "a wait that was ended")
			}
			must.Fail(t, cq.Wait(ctx), c.want, "a wait that came later")
		})
	}
}

// TestWaitRefuses checks the CQs for which Wait fails.
func TestWaitRefuses(t *testing.T) {
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	must.Fail(t, e.cq.Wait(t.Context()), syscall.EINVAL, "a CQ with a completion channel")
	must.Fail(t, (*CQ)(nil).Wait(t.Context()), ErrInvalidCQ, "no CQ")
	cq, err := e.ctx.CreateCQ(4, nil)
	must.Do(t, err)
	must.Fail(t, cq.ReqNotify(false), syscall.EINVAL, "arming a CQ without a completion channel")
}

// TestWaitOnAnOverflowedCQ takes the completions in the queue, and then gets the error
// that there will be no more.
func TestWaitOnAnOverflowedCQ(t *testing.T) {
	_, b, cq := newWaitPair(t)
	for range 64 {
		must.Do(t, b.qp.PostRecv(RecvWR{}))
	}
	must.Do(t, cq.Resize(1))
	b.move(t, ib.ERR) // flushes more requests than the CQ has entries
	must.Do(t, cq.Wait(waitContext(t)))
	wc := make([]WC, 64)
	if n := poll(t, cq, wc); n == 0 || !cq.Overrun() {
		t.Fatalf("%d completions, overrun %v", n, cq.Overrun())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must.Fail(t, cq.Wait(ctx), syscall.EIO, "a CQ that overflowed")
}
