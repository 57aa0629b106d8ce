package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/number"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard"
)

// xrcObjects are the domains of extended reliable connections, and the numbers of their shared
// receive queues.
type xrcObjects struct {
	planes  *planes
	cfg     *Config
	shard   *shard.Shard
	track   *tracker
	domains map[*qp.XRCD]bool
	srqs    *number.Pool
}

// OpenXRCD returns a new XRC domain.
func (h *xrcObjects) OpenXRCD() (*qp.XRCD, error) {
	if len(h.domains) >= h.cfg.Limits.MaxXRCD {
		return nil, ib.ErrInsufficientResources
	}
	d := new(qp.XRCD)
	h.domains[d] = true
	h.track.xrcd(d)
	return d, nil
}

// CloseXRCD closes an XRC domain; EBUSY while targets or shared receive queues are in it.
func (h *xrcObjects) CloseXRCD(d *qp.XRCD) error {
	if !h.domains[d] {
		return ib.ErrInvalidXRCD
	}
	if n := d.Users(); n != 0 {
		return fmt.Errorf("XRC domain has %d objects: %w", n, ib.ErrBusy)
	}
	delete(h.domains, d)
	d.Track.Free()
	return nil
}

// CreateXRCSRQ returns a shared receive queue of an XRC domain, with a number of its own. Its
// receives complete to cq.
func (p *PD) CreateXRCSRQ(d *qp.XRCD, cq *qp.CQ, wr, sge, limit uint32) (*qp.SRQ, error) {
	return p.CreateXRCSRQWith(d, cq, SRQConfig{MaxWR: wr, MaxSGE: sge, Limit: limit})
}

// CreateXRCSRQWith is CreateXRCSRQ with all properties of a queue.
func (p *PD) CreateXRCSRQWith(d *qp.XRCD, cq *qp.CQ, c SRQConfig) (*qp.SRQ, error) {
	h := &p.hca.xrcObjects
	switch {
	case !p.hca.valid(p):
		return nil, ib.ErrInvalidPD
	case !h.domains[d]:
		return nil, ib.ErrInvalidXRCD
	case cq == nil:
		return nil, ib.ErrInvalidCQ
	}
	n, ok := h.srqs.Draw(h.cfg.Rand)
	if !ok {
		return nil, ib.ErrInsufficientResources
	}
	s, err := p.CreateSRQWith(c)
	if err != nil {
		return nil, err
	}
	if err := h.planes.Enter(func() error {
		s.EnterXRC(qp.XRCSRQ{Num: ib.SRQN(n), Domain: d, CQ: cq})
		h.shard.AddSRQ(s)
		return nil
	}); err != nil {
		return nil, err
	}
	h.srqs.Take(n)
	h.track.srqChanged(s, cq)
	return s, nil
}

// removeXRC takes a shared receive queue that is being destroyed out of its XRC domain, if it
// is in one, and quarantines its number.
func (h *xrcObjects) removeXRC(s *qp.SRQ) error {
	if s.XRCD() == nil {
		return nil
	}
	err := h.planes.Enter(func() error {
		h.shard.RemoveSRQ(s)
		return nil
	})
	if err == nil {
		h.srqs.Free(uint32(s.Num()))
	}
	return err
}

// checkTarget checks the configuration of an XRC target, which has no queues.
func (h *xrcObjects) checkTarget(p *PD, c *QPConfig) error {
	switch {
	case !h.domains[c.XRCD]:
		return ib.ErrInvalidXRCD
	case p != nil:
		return ib.ErrInvalidPD
	case c.SendCQ != nil || c.RecvCQ != nil:
		return ib.ErrInvalidCQ
	case c.SRQ != nil:
		return ib.ErrInvalidSRQ
	}
	return nil
}
