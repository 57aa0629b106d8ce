package verbs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// alone is an adapter on its own network.
type alone struct {
	ctx *verbs.Context
	pd  *verbs.PD
}

func worked(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	c, err := verbs.Open(verbs.Config{Addr: "10.0.0.1", Network: verbs.NewNetwork()})
	worked(t, err)
	t.Cleanup(func() { worked(t, c.Close()) })
	pd, err := c.AllocPD()
	worked(t, err)
	return &alone{c, pd}
}

// failed returns a queue pair in ERR, which flushes posted requests.
func (a *alone) failed(t *testing.T, cq *verbs.CQ, srq *verbs.SRQ) *verbs.QP {
	t.Helper()
	q, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: verbs.QPCap{MaxRecvWR: 1}})
	worked(t, err)
	worked(t, q.Modify(&verbs.QPAttr{State: ib.ERR}, ib.AttrState))
	return q
}

// TestAsyncEventReadyAgain raises events faster than they are taken. The channel has an
// element while events are pending, so a program that takes one event for each element
// gets all of them.
func TestAsyncEventReadyAgain(t *testing.T) {
	a := newAlone(t)
	cq, err := a.ctx.CreateCQ(1, nil)
	worked(t, err)
	srq, err := a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
	worked(t, err)
	const events = 5
	for range events {
		a.failed(t, cq, srq) // LAST_WQE_REACHED
	}
	for i := range events {
		select {
		case <-a.ctx.AsyncEventReady():
		case <-time.After(20 * time.Second):
			t.Fatalf("%d of %d events were announced", i, events)
		}
		ev, err := a.ctx.PollAsyncEvent()
		worked(t, err)
		ev.Ack()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ev, err := a.ctx.GetAsyncEvent(ctx); err == nil {
		t.Errorf("one event too many: %v", ev)
	}
}

// TestChannelOverflowKeepsAll raises more events than a channel holds, most of them of
// one CQ, while no goroutine receives. Afterwards every CQ that raised an event is in
// the channel, except for the destroyed one.
func TestChannelOverflowKeepsAll(t *testing.T) {
	a := newAlone(t)
	ch := verbs.NewCompChannel(1024)
	cqs, qps := make([]*verbs.CQ, 5), make([]*verbs.QP, 5)
	var wc [1]verbs.WC
	raise := func(i int) {
		worked(t, cqs[i].ReqNotify(false))
		worked(t, qps[i].PostRecv(verbs.RecvWR{}))
		for n := 0; n == 0; { // the thread that holds the adapter flushes, at once or when it releases it
			var err error
			n, err = cqs[i].Poll(wc[:])
			worked(t, err)
		}
	}
	for i := range cqs {
		var err error
		cqs[i], err = a.ctx.CreateCQ(1, ch)
		worked(t, err)
		qps[i] = a.failed(t, cqs[i], nil)
		raise(i)
	}
	const gone, often = 3, 0
	worked(t, qps[gone].Destroy())
	worked(t, cqs[gone].Destroy())
	for range 3 * 1024 { // the channel holds 2048 events
		raise(often)
	}
	found := map[*verbs.CQ]int{}
	for len(ch.C()) > 0 {
		found[<-ch.C()]++
	}
	for i, cq := range cqs {
		switch n := found[cq]; {
		case i == gone && n != 0:
			t.Errorf("a CQ that was destroyed is in the channel %d times", n)
		case i != gone && n == 0, i != gone && i != often && n > 1:
			t.Errorf("CQ %d is in the channel %d times", i, n)
		}
	}
}

// TestChannelOutlivesAdapter uses a channel for one CQ with one adapter after another:
// destroying the CQ of a closed adapter makes room in the channel.
func TestChannelOutlivesAdapter(t *testing.T) {
	ch := verbs.NewCompChannel(1)
	n := verbs.NewNetwork()
	for range 3 {
		c, err := verbs.Open(verbs.Config{Addr: "10.0.0.1", Network: n})
		worked(t, err)
		cq, err := c.CreateCQ(1, ch)
		worked(t, err)
		if _, err := c.CreateCQ(1, ch); !errors.Is(err, ib.ENOMEM) {
			t.Fatalf("a second CQ in a channel for one: %v", err)
		}
		worked(t, c.Close())
		for range 2 {
			if err := cq.Destroy(); !errors.Is(err, ib.ENODEV) {
				t.Fatalf("destroy a CQ of an adapter that is closed: %v", err)
			}
		}
		if _, err := c.CreateCQ(1, ch); !errors.Is(err, ib.ENODEV) {
			t.Fatalf("create a CQ of an adapter that is closed: %v", err)
		}
	}
}
