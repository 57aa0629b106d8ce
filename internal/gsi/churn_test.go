package gsi

import (
	"errors"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/churn"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/mad"
)

// churned is a request in the model.
type churned struct {
	x     *Transaction
	tid   uint64
	retry Retry         // the remaining retries
	at    clock.Instant // of the next repetition or the end
	ends  int
	err   error // the error with which it ended
}

func (c *churned) wantEnd(t testing.TB, what string, err error) {
	if c.ends != 1 || c.err != err {
		t.Fatalf("request %d is %s: it ended %d times with %v", c.tid, what, c.ends, c.err)
	}
}

// fireFirst passes the time until the first request is due.
func (r *rig) fireFirst(live *churn.Pool[*churned]) {
	first := clock.Never
	for _, c := range live.All {
		first = min(first, c.at)
	}
	if r.g.Deadline() != first {
		r.t.Fatalf("the first of %d requests is due at %v, the interface says %v", live.Len(), first, r.g.Deadline())
	}
	r.now = first
	r.g.Advance(r.now)
	for i := live.Len() - 1; i >= 0; i-- {
		switch c := live.All[i]; {
		case c.at != r.now && c.ends == 0:
		case c.at == r.now && c.retry.Retries > 0 && c.ends == 0:
			c.retry.Retries--
			c.at = r.now.Add(c.retry.Timeout)
		default:
			c.wantEnd(r.t, "late", ErrTimeout)
			live.Drop(i)
		}
	}
}

// TestChurnTransactions begins very many requests that are answered, canceled,
// or repeated until they time out, in disorder. Each ends once, at its time and
// as it should; the interface is never woken later than the first is due; and
// there are never more than there may be.
func TestChurnTransactions(t *testing.T) {
	const most = 50
	rng := churn.Rand(t)
	r := newRig(t, Config{MaxTransactions: most})
	a := r.agent(mad.ClassPerf, 1)
	var live churn.Pool[*churned]
	begin := func(tid uint64) {
		c := &churned{tid: tid, retry: Retry{Timeout: time.Duration(1 + rng.IntN(int(time.Second))), Retries: rng.IntN(3)}}
		var err error
		c.x, err = a.Request(r.now, Address{Remote: rigPeer}, madOf(mad.ClassPerf, 1, mad.MethodGet, tid), c.retry,
			func(_ clock.Instant, _ *Received, err error) { c.ends++; c.err = err })
		if full := live.Len() == most; full != errors.Is(err, ErrTooManyTransactions) || !full && err != nil {
			t.Fatalf("a request beside %d others: %v", live.Len(), err)
		} else if !full {
			c.at = r.now.Add(c.retry.Timeout)
			live.Add(c)
		}
	}
	for objects, made := churn.Objects()/4, 0; made < objects; {
		switch op := rng.IntN(10); {
		case op < 4 || live.Len() == 0:
			made++
			begin(uint64(made))
		case op < 6:
			c := live.Take(rng)
			m := madOf(mad.ClassPerf, 1, mad.MethodGet.Response(), c.tid)
			r.deliver("an answer", m)
			c.wantEnd(t, "answered", nil)
			c.x.Cancel(r.now)
			r.wantDrop("the answer again", m, counters.DropResponse)
		case op < 7:
			c := live.Take(rng)
			c.x.Cancel(r.now)
			c.x.Cancel(r.now)
			c.wantEnd(t, "canceled", ErrCanceled)
		default:
			r.fireFirst(&live)
		}
		r.g.Transmit(r.now, 1, r.batch)
		r.batch.Reset()
		r.trace = r.trace[:0]
	}
	a.Close(r.now)
	for _, c := range live.All {
		c.wantEnd(t, "of an agent that ended", ErrCanceled)
	}
	if r.g.Deadline() != clock.Never {
		t.Error("a timer is left")
	}
}
