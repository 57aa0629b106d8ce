package verbs

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/fault"
	"github.com/softhca/softhca/internal/qp"
)

// CQ is a completion queue (V3).
type CQ struct {
	ctx       *Context
	cq        *qp.CQ
	channel   *CompChannel
	unacked   int           // events that were taken; the event queue's mu guards it
	idle      atomic.Uint32 // empty polls
	destroyed atomic.Bool
}

// CreateCQ returns a completion queue of at least n entries; its events go to
// ch, which may be nil. EINVAL when n is 0 or over the adapter's limit, ENOMEM
// when there are no more CQs or ch has its 1024.
func (c *Context) CreateCQ(n int, ch *CompChannel) (*CQ, error) {
	q := &CQ{ctx: c, channel: ch}
	if n < 0 || uint64(n) > 1<<31 {
		return nil, fmt.Errorf("create CQ of %d entries: %w", n, ib.EINVAL)
	}
	if ch != nil && !ch.join() {
		return nil, fmt.Errorf("create CQ: the completion channel has %d: %w", ch.most, ErrInsufficientResources)
	}
	err := c.call(fault.CreateCQ, subject{}, func(clock.Instant) (err error) {
		q.cq, err = c.hca.CreateCQ(uint32(n), q.notify)
		return err
	})
	if err != nil {
		ch.leave()
		return nil, fmt.Errorf("create CQ: %w", err)
	}
	c.events.addCQ(q)
	return q, nil
}

// notify puts the CQ in its channel. It runs on the thread that completes.
func (q *CQ) notify() {
	c := q.channel
	if c == nil {
		return
	}
	q.ctx.drv.Woke()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ch) == cap(c.ch) {
		c.compact()
	}
	c.ch <- q
}

// Poll moves completions, oldest first, to out and returns how many. It never
// blocks. A poll of an empty queue also lets the adapter receive and send, on
// the caller's thread: a program that polls needs no other to make progress.
func (q *CQ) Poll(out []WC) int {
	if n := q.cq.Poll(out); n > 0 || len(out) == 0 {
		return n
	}
	if !q.ctx.usable() {
		return 0
	}
	q.ctx.drv.Progress()
	n := q.cq.Poll(out)
	if n == 0 && q.idle.Add(1)%idlePolls == 0 {
		runtime.Gosched() // on one processor, what is polled for may wait for it
	}
	return n
}

// idlePolls is how many empty polls pass before others may have the thread.
const idlePolls = 32

// ReqNotify arms the CQ: the next completion, or with solicitedOnly the next
// that is solicited or unsuccessful, puts it in its completion channel, once.
// Completions that wait already do not: poll after arming. EINVAL without a
// completion channel.
func (q *CQ) ReqNotify(solicitedOnly bool) error {
	if q == nil || q.destroyed.Load() {
		return fmt.Errorf("arm CQ: %w", ErrInvalidCQ)
	}
	if q.channel == nil {
		return fmt.Errorf("arm CQ: it was created without a completion channel: %w", ib.EINVAL)
	}
	if err := q.ctx.alive(); err != nil {
		return err
	}
	if err := q.ctx.called(fault.ReqNotify, subject{cq: q.cq}); err != nil {
		return fmt.Errorf("arm CQ: %w", err)
	}
	q.cq.Arm(solicitedOnly)
	q.ctx.drv.Armed()
	return nil
}

// Cap returns the number of entries.
func (q *CQ) Cap() int { return int(q.cq.Cap()) }

// Resize changes the number of entries to at least n; completions that wait
// stay. EINVAL when they would not fit.
func (q *CQ) Resize(n int) error {
	if q == nil {
		return fmt.Errorf("resize CQ: %w", ErrInvalidCQ)
	}
	if n < 0 || uint64(n) > 1<<31 {
		return fmt.Errorf("resize CQ to %d entries: %w", n, ib.EINVAL)
	}
	err := q.ctx.call(fault.ResizeCQ, subject{cq: q.cq}, func(clock.Instant) error {
		if q.destroyed.Load() {
			return ErrInvalidCQ
		}
		return q.ctx.hca.ResizeCQ(q.cq, uint32(n))
	})
	if err != nil {
		return fmt.Errorf("resize CQ: %w", err)
	}
	return nil
}

// Overrun reports whether the CQ overflowed: completions were lost, CQ_ERR
// was raised and its QPs are in ERR (E18).
func (q *CQ) Overrun() bool { return q.cq.Failed() }

// Destroy ends the CQ. ErrBusy while QPs complete to it, or while an event
// about it is not acknowledged.
func (q *CQ) Destroy() error {
	if q == nil || q.destroyed.Load() {
		return ErrInvalidCQ
	}
	err := q.ctx.call(fault.DestroyCQ, subject{cq: q.cq}, func(clock.Instant) error {
		if q.destroyed.Load() { // by a call at the same time
			return ErrInvalidCQ
		}
		return q.ctx.events.end(&q.unacked, func() error {
			if err := q.ctx.hca.DestroyCQ(q.cq); err != nil {
				return err
			}
			q.destroyed.Store(true)
			q.ctx.events.removeCQ(q)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("destroy CQ: %w", err)
	}
	q.channel.leave()
	return nil
}
