package hca

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// Inject sets what is asked about every request that an RC responder is
// about to execute; nil for nothing, which is how an adapter begins.
func (h *HCA) Inject(f qp.Inject) { h.shard.env.Inject = f }

// OverflowCQ makes a CQ fail as an entry does that finds it full (E18): CQ_ERR,
// and every QP that completes there goes to ERR. It reports whether the CQ had
// not failed before.
func (h *HCA) OverflowCQ(now clock.Instant, c *qp.CQ) bool {
	if !c.Fail() {
		return false
	}
	h.shard.env.Now = now
	h.cfg.Raise(qp.Event{Type: ib.EventCQErr, CQ: c})
	h.shard.cqFailed(now, c)
	return true
}

// Raise raises an asynchronous event that nothing has caused.
func (h *HCA) Raise(e qp.Event) { h.cfg.Raise(e) }

// EachQP calls f for every QP but QP1.
func (h *HCA) EachQP(f func(*qp.QP)) { h.shard.qpns.each(f) }
