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
	// ErrTooManyTransactions is returned at the limit of unanswered requests.
	ErrTooManyTransactions = fmt.Errorf("too many requests wait for answers: %w", ib.ENOMEM)
	// ErrDuplicate is returned if a request to the same address with the same
	// class and transaction ID is unanswered.
	ErrDuplicate = fmt.Errorf("a request with this transaction ID waits: %w", ib.EEXIST)
)

// Done is called at the end of a request, with its answer, valid until Done
// returns, or an error. It must not block. It may call the agent, and the
// interface except Receive, Transmit and Advance.
type Done func(now clock.Instant, r *Received, err error)

// Transaction is a request that waits for its answer.
type Transaction struct {
	agent  *Agent
	key    key
	answer mad.Method // 0: no response exists
	retry  Retry      // Retries: repetitions left
	done   Done
	route  route
	mad    mad.MAD

	timer deadline.Link // of the next retry or the end
	seq   uint64        // order of creation
}

// key identifies the answer to a request.
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

// Cancel ends the request with ErrCanceled, before it returns. A queued copy is
// still sent. Cancel of an ended request does nothing.
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
	if g.enqueue(&t.route, &t.mad) == nil { // a full queue counts as a loss in the network
		g.counters.Retried++
	}
}

// end removes the request from the table and calls Done, once.
func (t *Transaction) end(now clock.Instant, r *Received, err error) {
	if t.agent.g.waiting.remove(t) {
		t.done(now, r, err)
	}
}
