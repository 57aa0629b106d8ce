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
	if !h.rdds[d] {
		return nil, ib.ErrInvalidRDD
	}
	n, ok := h.eecs.Draw(h.cfg.Rand)
	if !ok || h.use.EECs >= h.cfg.Limits.MaxEEC {
		return nil, ib.ErrInsufficientResources
	}
	e, err := qp.NewEEC(&h.env, qp.EECConfig{Num: ib.EECN(n), RDD: d})
	if err != nil {
		return nil, err
	}
	h.eecs.Take(n)
	if err := h.Enter(func() error {
		h.shard.AddEEC(e)
		return nil
	}); err != nil {
		return nil, err
	}
	h.use.EECs++
	return e, nil
}

// DestroyEEC destroys an EE context in any state. Work requests that it carries
// complete in error, and its number is quarantined. The caller is in the shard.
func (h *HCA) DestroyEEC(now clock.Instant, e *qp.EEC) {
	h.shard.RemoveEEC(e)
	h.eecs.Free(uint32(e.Num()))
	h.use.EECs--
	e.Destroy(now)
}
