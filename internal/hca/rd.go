package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// AllocRDD returns a new reliable datagram domain (V18).
func (h *HCA) AllocRDD() (*qp.RDD, error) {
	if len(h.rdds) >= h.cfg.Limits.MaxRDD {
		return nil, ib.ErrInsufficientResources
	}
	d := new(qp.RDD)
	h.rdds[d] = true
	return d, nil
}

// DeallocRDD deallocates a reliable datagram domain; EBUSY while queue pairs or
// EE contexts are in it.
func (h *HCA) DeallocRDD(d *qp.RDD) error {
	if !h.rdds[d] {
		return ib.ErrInvalidRDD
	}
	if n := d.Users(); n != 0 {
		return fmt.Errorf("reliable datagram domain has %d objects: %w", n, ib.ErrBusy)
	}
	delete(h.rdds, d)
	return nil
}

// CreateEEC returns an EE context in RESET with a number of its own.
func (h *HCA) CreateEEC(d *qp.RDD) (*qp.EEC, error) {
	s := h.shard
	if !h.rdds[d] {
		return nil, ib.ErrInvalidRDD
	}
	n, ok := s.eecs.alloc(h.cfg.Rand)
	if !ok || s.eecs.n >= h.cfg.Limits.MaxEEC {
		return nil, ib.ErrInsufficientResources
	}
	e, err := qp.NewEEC(&s.env, qp.EECConfig{Num: ib.EECN(n), RDD: d})
	if err != nil {
		return nil, err
	}
	s.eecs.add(n, e)
	return e, nil
}

// DestroyEEC destroys an EE context in any state. Work requests that it carries
// complete in error, and its number is quarantined.
func (h *HCA) DestroyEEC(now clock.Instant, e *qp.EEC) {
	s := h.shard
	s.env.Now = now
	s.eecs.remove(uint32(e.Num()))
	e.Destroy(now)
	s.timers.Remove(&e.End)
	s.active.remove(&e.End)
}

// EachEEC calls f for every EE context.
func (h *HCA) EachEEC(f func(*qp.EEC)) { h.shard.eecs.each(f) }
