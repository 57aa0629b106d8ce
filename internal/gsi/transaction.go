package gsi

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/mad"
)

// Errors of requests.
var (
	// ErrTimeout ends a request that was not answered.
	ErrTimeout = fmt.Errorf("no answer to the request: %w", ib.ETIMEDOUT)
	// ErrCanceled ends a request that was canceled.
	ErrCanceled = errors.New("request canceled")
	// ErrTooManyTransactions says that as many requests wait for answers as
	// may.
	ErrTooManyTransactions = fmt.Errorf("too many requests wait for answers: %w", ib.ENOMEM)
	// ErrDuplicate says that a request to the same address with the same class
	// and transaction ID waits.
	ErrDuplicate = fmt.Errorf("a request with this transaction ID waits: %w", ib.EEXIST)
)

// Done receives the end of a request: its answer, valid until Done returns, or
// why there is none. It must not block. It may call the agent and the
// interface, but for Receive, Transmit and Advance.
type Done func(now clock.Instant, r *Received, err error)

// Transaction is a request that waits for its answer.
type Transaction struct {
	agent  *Agent
	key    key
	answer mad.Method // 0: there is none
	retry  Retry      // Retries is what is left
	done   Done
	route  route
	mad    mad.MAD

	timer deadline.Link // of the next retry or the end
	seq   uint64        // order in which they were made
}

// key is what an answer is matched by.
type key struct {
	peer  netip.Addr
	tid   uint64
	class mad.Class
}

func newTransaction(a *Agent, r *route, m *mad.MAD) *Transaction {
	h := m.Header()
	return &Transaction{
		agent: a, key: key{r.path.Dst, h.TID, h.Class}, answer: h.Method.Response(), route: *r, mad: *m,
	}
}

// Cancel ends the request with ErrCanceled, before it returns. A copy that
// waits to be sent still leaves. On a request that has ended it does nothing.
func (t *Transaction) Cancel(now clock.Instant) { t.end(now, nil, ErrCanceled) }

// expire sends the request again or ends it.
func (t *Transaction) expire(now clock.Instant) {
	g := t.agent.g
	if t.retry.Retries == 0 {
		g.counters.TimedOut++
		t.end(now, nil, ErrTimeout)
		return
	}
	t.retry.Retries--
	g.waiting.byDue.Set(t, now.Add(t.retry.Timeout))
	if g.enqueue(&t.route, &t.mad) == nil { // a full queue is like a loss on the way
		g.counters.Retried++
	}
}

// end takes the request out of the table and tells its owner, once.
func (t *Transaction) end(now clock.Instant, r *Received, err error) {
	if t.agent.g.waiting.remove(t) {
		t.done(now, r, err)
	}
}
