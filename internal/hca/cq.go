package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/restrack"
)

// CQs are the completion queues of an adapter.
type CQs struct{ hca *HCA }

// CQs returns the completion queues.
func (h *HCA) CQs() CQs { return CQs{h} }

// Create is HCA.CreateCQ with all properties of a queue.
func (q CQs) Create(c qp.CQConfig) (*qp.CQ, error) {
	h := q.hca
	if err := h.cfg.Limits.checkCQE(c.Entries); err != nil {
		return nil, err
	}
	if h.use.CQs >= h.cfg.Limits.MaxCQ {
		return nil, ib.ErrInsufficientResources
	}
	if c.Queues.Alloc == nil {
		c.Entries = h.cfg.larger(c.Entries, h.cfg.Limits.MaxCQE)
	}
	c.Num, c.Table = h.track.number(restrack.KindCQ), h.track.table
	cq, err := qp.NewCQ(c.Queues.Or(h.cfg.Queues), c)
	if err == nil {
		h.use.CQs++
	}
	return cq, err
}

// Resize changes the number of entries (V3).
func (q CQs) Resize(c *qp.CQ, n uint32) error {
	if err := q.hca.cfg.Limits.checkCQE(n); err != nil {
		return err
	}
	return q.hca.Enter(func() error { return c.Resize(n) })
}

// Destroy destroys a completion queue; EBUSY while QPs complete to it.
func (q CQs) Destroy(c *qp.CQ) error {
	h := q.hca
	if n := c.Users(); n != 0 {
		return fmt.Errorf("completion queue serves %d work queues: %w", n, ib.ErrBusy)
	}
	if c.Moderated() || h.cfg.Nasty != nil {
		if err := h.Enter(func() error { h.env.Forget(c); return nil }); err != nil {
			return err
		}
	}
	h.use.CQs--
	c.Free()
	return nil
}

// checkCQE checks a number of entries of a completion queue.
func (l *Limits) checkCQE(n uint32) error {
	if n == 0 || n > l.MaxCQE {
		return fmt.Errorf("CQ of %d entries: the adapter takes 1 to %d: %w", n, l.MaxCQE, ib.EINVAL)
	}
	return nil
}

// Moderate changes how the events of a completion queue are delayed (M7).
func (q CQs) Moderate(now clock.Instant, c *qp.CQ, m qp.Moderation) error {
	return q.hca.Enter(func() error { return q.hca.env.Moderate(now, c, m) })
}

// Waiting counts n completions that were in the queue when it was armed, and that no event has
// announced. The caller is in the shard.
func (q CQs) Waiting(now clock.Instant, c *qp.CQ, n uint32) { q.hca.env.Waiting(now, c, n) }

// Overflow makes a CQ fail as if an entry had overflowed it (E18): CQ_ERR, and every QP that
// completes there goes to ERR. It reports whether the CQ had not failed before. The caller is in
// the shard.
func (q CQs) Overflow(now clock.Instant, c *qp.CQ) bool {
	if !c.Fail() {
		return false
	}
	h := q.hca
	h.env.Enter(now)
	h.cfg.Raise(qp.Event{Type: ib.EventCQErr, CQ: c})
	h.env.CQFailed(now, c)
	return true
}
