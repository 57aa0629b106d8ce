package driver

import (
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

// TestSparedPostsInError posts without a doorbell to a queue pair that has gone to
// ERR since it was spared: what was posted is flushed with the next round.
func TestSparedPostsInError(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newSide(t, n, 2) // the test is a's goroutine
	a.connect(t, b, 0, 7)
	a.suppressible = true
	a.absent(t)
	a.postSend(t, b, 8)
	a.postSend(t, b, 8)
	if !a.spared() {
		t.Fatal("a post that waits spares no doorbells")
	}
	a.locked(func() { must.Do(t, a.qp.Modify(a.drv.Now(), &ib.QPAttr{State: ib.ERR}, ib.AttrState)) })
	if n := a.cq.Pending(); n != 2 {
		t.Fatalf("%d of 2 requests are flushed", n)
	}
	a.postSend(t, b, 8)
	if n := a.cq.Pending(); n != 2 {
		t.Fatal("who is spared the doorbell has rung it")
	}
	a.drain(t, 3, ib.WCWRFlushErr)
}

// TestSparedPostsPay has producers post several requests before each poll, of which
// only the first rings the doorbell: the driver must not treat it as the only one.
func TestSparedPostsPay(t *testing.T) {
	a := newStillSide(t, pipe.NewNetwork(pipe.Options{}), 1)
	for _, several := range []bool{false, true} {
		c, now := coalescer{polling: benefit{score: 8}}, clock.Instant(0)
		for range 4 {
			now = now.Add(time.Microsecond)
			if !c.posted(now, qp.Posted{Requests: 1, Behind: true}, byPollers) {
				t.Fatal("a post does not wait")
			}
			c.suppressed.add(a.qp)
			if several {
				a.sendRing().Prod.Add(2) // two more
			}
			c.polled(now)
			c.left(now, a.hca.Shard())
		}
		if want := map[bool]int{false: 8 - 4, true: 8 + 4}[several]; c.polling.score != want {
			t.Errorf("several at a time %v: score %d, want %d", several, c.polling.score, want)
		}
	}
}

// TestSparedIsBounded spares the producers of more queue pairs than it may.
func TestSparedIsBounded(t *testing.T) {
	a, b := newSides(t)
	var s suppressed
	var all []*qp.QP
	for range maxSuppressed + 1 {
		all = append(all, a.silentQP(t, b))
	}
	a.locked(func() {
		for range 2 {
			for _, q := range all {
				s.add(q)
			}
		}
		if len(s) != maxSuppressed {
			t.Errorf("the producers of %d queue pairs are spared, want %d", len(s), maxSuppressed)
		}
		s.end(a.drv.Now(), a.hca.Shard())
	})
	for _, q := range all {
		if send, _ := q.Queues(); send.Flags.Load() != 0 {
			t.Fatalf("flags %#x after the end", send.Flags.Load())
		}
	}
}
