package hca

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
)

// PD is a protection domain.
type PD struct {
	hca   *HCA
	ID    memory.PD
	users int
	track restrack.Handle[restrack.PDInfo, restrack.PDCounts]
}

// Dealloc deallocates a protection domain; EBUSY while regions, windows, QPs, SRQs or
// address handles are in it.
func (p *PD) Dealloc() error {
	if !p.hca.valid(p) {
		return ib.ErrInvalidPD
	}
	if p.users != 0 {
		return fmt.Errorf("protection domain has %d objects: %w", p.users, ib.ErrBusy)
	}
	delete(p.hca.pds, p.ID)
	p.track.Free()
	return nil
}

// RegMR registers memory in a protection domain, which replaces c.PD. The
// region keeps c.Buf until DeregMR. Errors as memory.Table.Register.
func (p *PD) RegMR(c memory.RegionConfig) (*memory.Region, error) {
	if !p.hca.valid(p) {
		return nil, ib.ErrInvalidPD
	}
	c.PD = p.ID
	var r *memory.Region
	err := p.hca.Enter(func() (err error) {
		r, err = p.hca.env.Mem.Register(c)
		return err
	})
	if err == nil {
		p.use(1)
		p.hca.track.region(r, formOf(c.Form))
	}
	return r, err
}

// ReregMR changes a region, which then counts as an object of its new
// protection domain.
func (p *PD) ReregMR(r *memory.Region, what memory.Change, c memory.RegionConfig, to *PD) error {
	if !p.hca.valid(to) {
		return ib.ErrInvalidPD
	}
	c.PD = to.ID
	if err := p.hca.Enter(func() error { return p.hca.env.Mem.Reregister(r, what, c) }); err != nil {
		return err
	}
	if what&memory.ChangePD != 0 {
		p.use(-1)
		to.use(1)
	}
	if what&memory.ChangeTranslation != 0 {
		p.hca.leaveDM(r)
	}
	p.hca.track.region(r, formOf(r.Form()))
	return nil
}

// DeregMR deregisters a region: no packet accesses its memory afterwards.
func (p *PD) DeregMR(r *memory.Region) error {
	err := p.hca.Enter(func() error { return p.hca.env.Mem.Deregister(r) })
	if err == nil {
		p.use(-1)
		p.hca.leaveDM(r)
		r.Track.Free()
	}
	return err
}

// View returns the memory of a scatter/gather element, which is valid until its
// region is deregistered: ENOENT for an unknown or invalidated key, EPERM for
// another domain or a missing right, EFAULT outside of the region.
func (p *PD) View(e ib.SGE, need ib.Access) (b []byte, err error) {
	if !p.hca.valid(p) {
		return nil, ib.ErrInvalidPD
	}
	f := memory.FaultNone
	err = p.hca.Enter(func() error {
		b, f = p.hca.env.Mem.Local(p.ID, e.LKey, e.Addr, uint64(e.Length), need)
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch f {
	case memory.FaultNone:
		return b, nil
	case memory.FaultKey, memory.FaultInvalidated:
		err = ib.ENOENT
	case memory.FaultPD, memory.FaultAccess:
		err = ib.EPERM
	default:
		err = ib.EFAULT
	}
	return nil, fmt.Errorf("%d bytes at %#x with key %#x: %v: %w", e.Length, e.Addr, uint32(e.LKey), f, err)
}

// AllocMW returns a memory window, which is not bound. Errors as memory.Table.AllocWindow.
func (p *PD) AllocMW(t ib.MWType) (*memory.Window, error) {
	if !p.hca.valid(p) {
		return nil, ib.ErrInvalidPD
	}
	var w *memory.Window
	err := p.hca.Enter(func() (err error) {
		w, err = p.hca.env.Mem.AllocWindow(p.ID, t)
		return err
	})
	if err == nil {
		p.use(1)
		p.hca.track.window(p, w)
	}
	return w, err
}

// DeallocMW deallocates a memory window: no packet uses it afterwards.
func (p *PD) DeallocMW(w *memory.Window) error {
	err := p.hca.Enter(func() error { return p.hca.env.Mem.DeallocWindow(w) })
	if err == nil {
		p.use(-1)
		w.Track.Free()
	}
	return err
}

// SRQConfig describes a shared receive queue: its work requests, the elements of each, and its
// limit, 0 for none.
type SRQConfig struct {
	MaxWR, MaxSGE, Limit uint32
	Queues               ring.Allocator // of its memory; zero: that of the adapter
}

// CreateSRQ returns a shared receive queue of at least wr work requests.
func (p *PD) CreateSRQ(wr, sge, limit uint32) (*qp.SRQ, error) {
	return p.CreateSRQWith(SRQConfig{MaxWR: wr, MaxSGE: sge, Limit: limit})
}

// CreateSRQWith is CreateSRQ with all properties of a queue.
func (p *PD) CreateSRQWith(c SRQConfig) (*qp.SRQ, error) {
	h := p.hca
	l := &h.cfg.Limits
	switch {
	case !h.valid(p):
		return nil, ib.ErrInvalidPD
	case l.checkSRQWR(c.MaxWR) != nil:
		return nil, l.checkSRQWR(c.MaxWR)
	case c.MaxSGE > l.MaxSGE:
		return nil, fmt.Errorf("SRQ of %d scatter elements: the adapter takes %d: %w", c.MaxSGE, l.MaxSGE, ib.EINVAL)
	case h.use.SRQs >= l.MaxSRQ:
		return nil, ib.ErrInsufficientResources
	}
	var s *qp.SRQ
	wr, sge := c.MaxWR, max(c.MaxSGE, 1)
	if c.Queues.Alloc == nil {
		wr, sge = h.cfg.larger(wr, l.MaxSRQWR), h.cfg.larger(sge, l.MaxSGE)
	}
	s, err := qp.NewSRQ(c.Queues.Or(h.cfg.Queues), p.ID, wr, sge, func() {
		h.cfg.Raise(qp.Event{Type: ib.EventSRQLimitReached, SRQ: s})
	})
	if err != nil {
		return nil, err
	}
	if err := s.SetLimit(c.Limit); err != nil {
		s.Free()
		return nil, err
	}
	h.use.SRQs++
	p.use(1)
	h.track.srq(s)
	return s, nil
}

// checkSRQWR checks a number of work requests of a shared receive queue.
func (l *Limits) checkSRQWR(wr uint32) error {
	if wr == 0 || wr > l.MaxSRQWR {
		return fmt.Errorf("SRQ of %d work requests: the adapter takes 1 to %d: %w", wr, l.MaxSRQWR, ib.EINVAL)
	}
	return nil
}

// ResizeSRQ changes the number of work requests to at least wr (M7). Programs that write
// entries themselves must not do so meanwhile.
func (p *PD) ResizeSRQ(s *qp.SRQ, wr uint32) error {
	if err := p.hca.cfg.Limits.checkSRQWR(wr); err != nil {
		return err
	}
	err := s.Resize(wr)
	p.hca.track.srqChanged(s, nil)
	return err
}

// DestroySRQ destroys a shared receive queue; EBUSY while QPs use it.
func (p *PD) DestroySRQ(s *qp.SRQ) error {
	if n := s.Users(); n != 0 {
		return fmt.Errorf("shared receive queue serves %d QPs: %w", n, ib.ErrBusy)
	}
	if err := p.hca.removeXRC(s); err != nil {
		return err
	}
	p.hca.use.SRQs--
	p.use(-1)
	s.Track.Free()
	s.Free()
	return nil
}

// CreateAH resolves an address vector into an address handle.
func (p *PD) CreateAH(av *ib.AHAttr) (ib.AHHandle, error) {
	if !p.hca.valid(p) {
		return 0, ib.ErrInvalidPD
	}
	if !av.StaticRate.Valid() {
		return 0, fmt.Errorf("no static rate has the code %d: %w", uint8(av.StaticRate), ib.EINVAL)
	}
	var h ib.AHHandle
	err := p.hca.Enter(func() error {
		path, err := p.hca.env.Resolve(av, 0)
		if err != nil {
			return err
		}
		var ok bool
		if h, ok = p.hca.env.AHs.Add(qp.NewAH(&p.hca.env, p.ID, path, av.StaticRate)); !ok {
			return ib.ErrInsufficientResources
		}
		return nil
	})
	if err == nil {
		p.use(1)
	}
	return h, err
}

// DestroyAH destroys an address handle. A work request that still names it
// completes with LOC_QP_OP_ERR.
func (p *PD) DestroyAH(a ib.AHHandle) error {
	err := p.hca.Enter(func() error {
		if !p.hca.env.AHs.Remove(a) {
			return fmt.Errorf("no such address handle: %w", ib.EINVAL)
		}
		return nil
	})
	if err == nil {
		p.use(-1)
	}
	return err
}
