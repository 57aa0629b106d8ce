package device

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// CQ is a completion queue with its verbs, as QP is a queue pair. A nil or destroyed one has the
// error ib.ErrInvalidCQ.
type CQ struct{ Object }

// CQConfig describes a completion queue: its number of entries, and whether they hold the
// times of their completions.
type CQConfig struct {
	Entries uint32
	Timed   bool
	Queues  ring.Allocator // of its memory; zero: that of the adapter
}

// CreateCQ creates the completion queue q. The shard's thread calls notify when the armed queue
// gets an entry; any thread may call wake when the device ends, even just after the queue was
// destroyed.
func (d *Device) CreateCQ(q *CQ, c CQConfig, owner any, notify, wake func()) error {
	return d.Call("CreateCQ", func(clock.Instant) (err error) {
		cfg := qp.CQConfig{Entries: c.Entries, Queues: c.Queues, OnEvent: func() {
			d.Woke()
			notify()
		}}
		if c.Timed {
			cfg.Time = d.drv.Now
		}
		q.CQ, err = d.HCA.CQs().Create(cfg)
		if err != nil {
			return err
		}
		q.Owner, q.Wake = owner, wake
		d.Add(&q.Object)
		return nil
	})
}

// Arm asks for a notification of the next completion, or of the next that is solicited or
// unsuccessful.
func (q *CQ) Arm(solicitedOnly bool) {
	q.CQ.Arm(solicitedOnly)
	q.dev.Armed()
}

// Moderate changes how events of the queue are delayed.
func (q *CQ) Moderate(m qp.Moderation) error {
	if q == nil {
		return ib.ErrInvalidCQ
	}
	return q.Manage("ModifyCQ", ib.ErrInvalidCQ, func(now clock.Instant) error { return q.dev.HCA.CQs().Moderate(now, q.CQ, m) })
}

// Waiting tells the queue, just armed, that it holds n completions that no event has announced.
func (q *CQ) Waiting(n uint32) error {
	return q.Do(ib.ErrInvalidCQ, func(now clock.Instant) error {
		q.dev.HCA.CQs().Waiting(now, q.CQ, n)
		return nil
	})
}

// Resize changes the number of entries to at least n.
func (q *CQ) Resize(n uint32) error {
	if q == nil {
		return ib.ErrInvalidCQ
	}
	return q.Manage("ResizeCQ", ib.ErrInvalidCQ, func(clock.Instant) error { return q.dev.HCA.CQs().Resize(q.CQ, n) })
}

// Destroy destroys the queue, which no queue pair may use any more.
func (q *CQ) Destroy() error {
	if q == nil {
		return ib.ErrInvalidCQ
	}
	return q.Manage("DestroyCQ", ib.ErrInvalidCQ, func(clock.Instant) error {
		return q.Remove(func() error { return q.dev.HCA.CQs().Destroy(q.CQ) })
	})
}

// SRQ is a shared receive queue with its verbs, as QP is a queue pair. A nil or destroyed one
// has the error ib.ErrInvalidSRQ.
type SRQ struct {
	Object
	pd *hca.PD
}

// SRQConfig describes a shared receive queue: its work requests, the elements of each, the
// limit below which the event SRQ_LIMIT_REACHED is raised, 0 for none, and the allocator of its
// memory.
type SRQConfig = hca.SRQConfig

// CreateSRQ creates the shared receive queue s in the protection domain.
func (p *PD) CreateSRQ(s *SRQ, owner any, c SRQConfig) error {
	return p.call("CreateSRQ", func(clock.Instant) (err error) {
		if s.SRQ, err = p.pd.CreateSRQWith(c); err != nil {
			return err
		}
		s.pd, s.Owner = p.pd, owner
		p.dev.Add(&s.Object)
		return nil
	})
}

// CreateXRCSRQ creates the shared receive queue s of an XRC domain, whose receives complete to
// cq. The control plane calls find for both, so that they cannot be destroyed meanwhile.
func (p *PD) CreateXRCSRQ(s *SRQ, owner any, c SRQConfig, find func() (*XRCD, *CQ, error)) error {
	return p.call("CreateSRQ", func(clock.Instant) error {
		d, cq, err := find()
		if err != nil {
			return err
		}
		if s.SRQ, err = p.pd.CreateXRCSRQWith(d.xrcd, cq.CQ, c); err != nil {
			return err
		}
		s.pd, s.Owner = p.pd, owner
		p.dev.Add(&s.Object)
		return nil
	})
}

// SetLimit arms the event SRQ_LIMIT_REACHED.
func (s *SRQ) SetLimit(n uint32) error {
	if s == nil {
		return ib.ErrInvalidSRQ
	}
	if err := s.Called("SetSRQLimit", ib.ErrInvalidSRQ); err != nil {
		return err
	}
	return s.SRQ.SetLimit(n)
}

// Resize changes the number of work requests to at least wr.
func (s *SRQ) Resize(wr uint32) error {
	if s == nil {
		return ib.ErrInvalidSRQ
	}
	return s.Manage("ResizeSRQ", ib.ErrInvalidSRQ, func(clock.Instant) error { return s.pd.ResizeSRQ(s.SRQ, wr) })
}

// Destroy destroys the queue, which no queue pair may use any more.
func (s *SRQ) Destroy() error {
	if s == nil {
		return ib.ErrInvalidSRQ
	}
	return s.Manage("DestroySRQ", ib.ErrInvalidSRQ, func(clock.Instant) error {
		return s.Remove(func() error { return s.pd.DestroySRQ(s.SRQ) })
	})
}
