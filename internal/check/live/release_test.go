package live

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// TestRecordsAreReleased destroys objects of each kind. The checker keeps nothing of them, except a few keys of regions.
func TestRecordsAreReleased(t *testing.T) {
	c, reported := newChecker()
	pd := c.Made("protection domain", 0)
	completions, err := qp.NewCQ(ring.Allocator{}, qp.CQConfig{Entries: 4})
	must.Do(t, err)
	cq := c.MadeCQ(completions)
	srq := c.MadeSRQ(new(qp.SRQ), 16, pd)
	q := c.MadeQP(new(qp.QP), false, QPUses{PD: pd, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	r := c.Registered(RegionView{Key: 1, Buf: make([]byte, 8), PD: pd})
	if len(c.objects) != 5 || len(c.cqs) != 1 || len(c.qps) != 1 {
		t.Fatalf("%d objects, %d completion queues, %d queue pairs: want 5, 1, 1", len(c.objects), len(c.cqs), len(c.qps))
	}
	q.Destroyed(nil, nil, Unpolled{})
	srq.Destroyed(nil, nil)
	cq.Destroyed(nil, nil, Unpolled{})
	r.Deregistered(nil, Use{})
	pd.Destroyed(nil, nil)
	if len(c.objects) != 0 || len(c.cqs) != 0 || len(c.qps) != 0 || r.now.Buf != nil {
		t.Errorf("%d objects, %d completion queues, %d queue pairs and %d bytes are left", len(c.objects), len(c.cqs), len(c.qps), len(r.now.Buf))
	}
	c.Close()
	c.Tell()
	if len(c.sink.open) != 0 || len(*reported) != 0 {
		t.Errorf("%d adapters are open, and %d findings reported: want none", len(c.sink.open), len(*reported))
	}
}

// TestRequestsAreBounded posts receives without end, none of which completes. The checker keeps as many as the queue holds.
func TestRequestsAreBounded(t *testing.T) {
	c, reported := newChecker()
	srq := c.MadeSRQ(new(qp.SRQ), 4, nil)
	for range 1000 {
		p := srq.Receive(&ib.RecvWR{})
		if p.Full() {
			p.Done(ib.ENOMEM)
		} else {
			p.Done(nil)
		}
	}
	c.Tell()
	if n := len(srq.receives.list); n != 4 || len(*reported) != 0 {
		t.Errorf("%d requests are kept, and there are %d findings: want 4, and none", n, len(*reported))
	}
}

// TestAcknowledgedInTime destroys an object whose events the program has taken, until it has acknowledged them. Only
// if the number of acknowledgements stays the same for too long, the program has forgotten them.
func TestAcknowledgedInTime(t *testing.T) {
	busy := errors.Join(ib.EBUSY)
	for _, test := range []struct {
		name  string
		late  bool   // the second attempt is long after the first
		acked uint64 // until then
		found bool
	}{
		{"soon", false, 0, false},
		{"late", true, 0, true},
		{"late, and it has acknowledged others", true, 1, false},
	} {
		c, reported := newChecker()
		o := c.Made("queue pair", 1)
		o.Destroyed(busy, func() (int, uint64) { return 2, 0 })
		if test.late {
			o.refusedAt = o.refusedAt.Add(-acknowledges - time.Second)
		}
		o.Destroyed(busy, func() (int, uint64) { return 1, test.acked })
		c.Tell()
		if found := len(*reported) > 0; found != test.found {
			t.Errorf("%s: the events are found not to be acknowledged: %t", test.name, found)
		}
		// Another object uses it at last: its events are no longer the reason.
		c.Made("address handle", 1, o)
		o.Destroyed(busy, func() (int, uint64) { return 0, 2 })
		c.Close()
		c.Tell()
		if names := len(*reported); names != 1 && !test.found || names != 2 && test.found {
			t.Errorf("%s: %d findings: want destroy-refused, too", test.name, names)
		}
	}
}
