package verbs

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/must"
)

// next returns the next CQ of a completion channel.
func next(t *testing.T, ch *CompChannel) *CQ {
	t.Helper()
	select {
	case q := <-ch.C():
		return q
	case <-time.After(waitLimit):
		t.Fatalf("no completion event after %v", waitLimit)
		return nil
	}
}

// silent fails the test if an event is in the channel. The caller ensures that an
// event would have been raised by now.
func silent(t *testing.T, ch *CompChannel, why string) {
	t.Helper()
	select {
	case <-ch.C():
		t.Fatalf("completion event: %s", why)
	default:
	}
}

// deliver sends a message from a to b with the given flags and waits until b
// has its completion.
func deliver(t *testing.T, a, b *endpoint, flags ib.SendFlags) {
	t.Helper()
	must.Do(t, b.qp.PostRecv(b.recv(1, 0, 8)))
	wr := a.send(2, 8)
	wr.Flags = flags
	must.Do(t, a.qp.PostSend(wr))
	a.wait(t, 1) // acknowledged: b's completion and its event precede the ACK
}

func TestChannelAnyCompletion(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	deliver(t, a, b, 0)
	silent(t, b.ch, "the CQ was not armed")
	must.Do(t, b.cq.ReqNotify(false))
	silent(t, b.ch, "what waits before the arming raises none")
	deliver(t, a, b, 0)
	if q := next(t, b.ch); q != b.cq {
		t.Errorf("the event names another CQ")
	}
	deliver(t, a, b, 0)
	silent(t, b.ch, "one arming is one event")
	b.wait(t, 3)
}

func TestChannelSolicitedOnly(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	must.Do(t, b.cq.ReqNotify(true))
	deliver(t, a, b, 0)
	silent(t, b.ch, "the message was not solicited")
	deliver(t, a, b, ib.SendSolicited)
	next(t, b.ch)

	must.Do(t, b.cq.ReqNotify(true))
	must.Do(t, b.qp.PostRecv(b.recv(9, 0, 8)))
	b.move(t, ib.ERR)
	if next(t, b.ch) != b.cq {
		t.Error("the event of a completion in error names another CQ")
	}

	must.Do(t, a.cq.ReqNotify(false))
	must.Do(t, a.cq.ReqNotify(true)) // does not weaken the arming for any completion
	must.Do(t, a.qp.PostSend(a.write(3, 0, b)))
	a.move(t, ib.ERR) // completes it in any case
	next(t, a.ch)
}

// TestChannelArmThenPoll waits, arms and polls until the CQ is empty, the order that
// loses no completion. The receiver sleeps between messages.
func TestChannelArmThenPoll(t *testing.T) {
	for where, network := range networks {
		t.Run(where, func(t *testing.T) {
			a, b := network(t, ib.RC)
			connect(t, a, b, nil)
			const n = 500
			for i := range uint64(64) {
				must.Do(t, b.qp.PostRecv(b.recv(i, 0, 8)))
			}
			must.Do(t, b.cq.ReqNotify(false))
			go func() {
				for i := range uint64(n) {
					postUntilTaken(t, a.qp, a.send(i, 8))
					if i%16 == 0 {
						a.take(t, 1) // now and then the receiver catches up and sleeps
					}
				}
			}()
			for received := 0; received < n; {
				q := next(t, b.ch)
				must.Do(t, q.ReqNotify(false))
				wcs := make([]WC, 5)
				for k := poll(t, q, wcs); k > 0; k = poll(t, q, wcs) {
					for range k {
						must.Do(t, b.qp.PostRecv(b.recv(0, 0, 8)))
					}
					received += k
				}
			}
		})
	}
}

// TestChannelOfManyCQs arms every CQ of a full channel and waits with select
// for all of them.
func TestChannelOfManyCQs(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	ch := NewCompChannel(manyCQs)
	qs := make(map[*CQ]*QP)
	for range manyCQs {
		cq, err := a.ctx.CreateCQ(4, ch)
		must.Do(t, err)
		init := a.init(ib.RC)
		init.Cap = QPCap{MaxRecvWR: 4}
		init.SendCQ, init.RecvCQ = cq, cq
		q, err := a.pd.CreateQP(init)
		must.Do(t, err)
		must.Do(t, q.Modify(&QPAttr{State: ib.ERR}, ib.AttrState)) // flushes what is posted
		qs[cq] = q
	}
	_, err := a.ctx.CreateCQ(4, ch)
	must.Fail(t, err, ErrInsufficientResources, "one CQ more than a channel has")
	for cq, q := range qs {
		must.Do(t, cq.ReqNotify(false))
		must.Do(t, q.PostRecv(RecvWR{}))
	}
	other := make(chan struct{}) // never ready: the select must not hang on it
	for range manyCQs {
		select {
		case cq := <-ch.C():
			if qs[cq] == nil {
				t.Fatal("an event of an unknown CQ, or a second one")
			}
			must.Do(t, qs[cq].Destroy())
			must.Do(t, cq.Destroy())
			delete(qs, cq)
		case <-other:
		case <-time.After(waitLimit):
			t.Fatalf("%d CQs have raised no event", len(qs))
		}
	}
	_, err = a.ctx.CreateCQ(4, ch)
	must.Do(t, err) // there is room in the channel again
}

// TestChannelForgetsNobody raises more events of one CQ than the channel holds,
// while no goroutine receives. The event of another CQ must still arrive.
func TestChannelForgetsNobody(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	ch := NewCompChannel(manyCQs)
	qs := make([]*QP, 2)
	cqs := make([]*CQ, 2)
	for i := range qs {
		var err error
		cqs[i], err = a.ctx.CreateCQ(4, ch)
		must.Do(t, err)
		init := a.init(ib.RC)
		init.SendCQ, init.RecvCQ = cqs[i], cqs[i]
		qs[i], err = a.pd.CreateQP(init)
		must.Do(t, err)
		must.Do(t, qs[i].Modify(&QPAttr{State: ib.ERR}, ib.AttrState))
	}
	raise := func(i int) {
		must.Do(t, cqs[i].ReqNotify(false))
		must.Do(t, qs[i].PostRecv(RecvWR{}))
		(&endpoint{ctx: a.ctx, cq: cqs[i], qp: qs[i]}).take(t, 1)
	}
	for range 3 * manyCQs {
		raise(0)
	}
	raise(1)
	for next(t, ch) != cqs[1] {
	}
}

func TestReqNotifyRefuses(t *testing.T) {
	a, _ := newPair(t, ib.RC)
	q, err := a.ctx.CreateCQ(4, nil)
	must.Do(t, err)
	must.Fail(t, q.ReqNotify(false), syscall.EINVAL, "arm a CQ without channel")
	must.Do(t, q.Destroy())
	must.Fail(t, q.ReqNotify(false), ErrInvalidCQ, "arm a CQ that is gone")
	must.Fail(t, q.Resize(8), ErrInvalidCQ, "resize a CQ that is gone")
}

// TestSmallChannel creates a channel for one CQ. A second CQ is refused, and no
// event is lost although no goroutine receives.
func TestSmallChannel(t *testing.T) {
	a, b := newPair(t, ib.RC)
	ch := NewCompChannel(1)
	cq, err := a.ctx.CreateCQ(4, ch)
	must.Do(t, err)
	_, err = a.ctx.CreateCQ(4, ch)
	must.Fail(t, err, ErrInsufficientResources, "a second CQ")
	for range 10 {
		cq.wake()
	}
	if next(t, ch) != cq {
		t.Error("the event is of another CQ")
	}
	must.Do(t, cq.Destroy())
	other, err := a.ctx.CreateCQ(4, ch)
	must.Do(t, err)
	other.wake()
	other.wake()
	for next(t, ch) != other {
	}
	must.Do(t, other.Destroy())
	must.Do(t, a.ctx.Close())
	must.Do(t, b.ctx.Close())
}

// TestEndOfTheAdapterWakes closes adapters, or lets them fail, while programs sleep
// on completion channels: each program wakes up, and Poll returns the reason.
func TestEndOfTheAdapterWakes(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*endpoint) error
		want error
	}{
		{"closed", func(e *endpoint) error { return e.ctx.Close() }, ErrInvalidHCA},
		{"failed", func(e *endpoint) error {
			err := e.ctx.dev().Do(func(clock.Instant) error { panic("an invariant is broken") })
			if errors.Is(err, syscall.EIO) {
				return nil
			}
			return err
		}, syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := newPair(t, ib.RC)
			other, err := a.ctx.CreateCQ(4, NewCompChannel(1))
			must.Do(t, err)
			must.Do(t, a.qp.Modify(&QPAttr{State: ib.ERR}, ib.AttrState))
			must.Do(t, a.qp.PostRecv(RecvWR{WRID: 7}))
			for _, q := range []*CQ{a.cq, other} {
				must.Do(t, q.ReqNotify(false))
			}
			must.Do(t, c.end(a))
			for _, q := range []*CQ{a.cq, other} {
				if next(t, q.channel) != q {
					t.Error("the event is of another CQ")
				}
				wc := make([]WC, 2)
				n, err := q.Poll(wc)
				if q == a.cq { // earlier completions are not lost
					if n != 1 || err != nil || wc[0].WRID != 7 {
						t.Errorf("%d completions, %+v, %v", n, wc[0], err)
					}
					n, err = q.Poll(wc)
				}
				must.Fail(t, err, c.want, "poll of an empty CQ of an adapter that has ended")
				if n != 0 {
					t.Errorf("%d completions with an error", n)
				}
			}
		})
	}
}

// TestChannelOfTwoAdapters sleeps in a channel that serves one adapter, while a CQ of
// another adapter joins it: an event of that CQ wakes the sleeper too.
func TestChannelOfTwoAdapters(t *testing.T) {
	net := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: net}, ib.UD)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: net}, ib.UD)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for range 20 {
		ch := NewCompChannel(2)
		own, err := a.ctx.CreateCQ(1, ch)
		must.Do(t, err)
		slept := make(chan *CQ)
		go func() {
			q, _ := ch.Get(ctx) // nil: no event came
			slept <- q
		}()
		other, err := b.ctx.CreateCQ(1, ch)
		must.Do(t, err)
		qp, err := b.pd.CreateQP(&QPInitAttr{Type: ib.UD, SendCQ: other, RecvCQ: other, Cap: QPCap{MaxRecvWR: 1}})
		must.Do(t, err)
		must.Do(t, other.ReqNotify(false))
		must.Do(t, qp.Modify(&QPAttr{State: ib.ERR}, ib.AttrState))
		must.Do(t, qp.PostRecv(RecvWR{})) // is flushed
		if q := <-slept; q != other {
			t.Fatal("the sleeper in the channel of two adapters was not woken")
		}
		must.Do(t, qp.Destroy())
		must.Do(t, other.Destroy())
		must.Do(t, own.Destroy())
	}
}
