package hca

import (
	"errors"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
)

// ErrBusy is returned when an object that others use is to be destroyed.
var ErrBusy = fmt.Errorf("object is in use: %w", ib.EBUSY)

// ErrNoResources is returned when the adapter holds no more of an object.
var ErrNoResources = fmt.Errorf("insufficient resources: %w", ib.ENOMEM)

// errMTU is returned by New for a port too small for any RoCE path.
var errMTU = errors.New("the port's MTU is below the smallest path MTU of 256 bytes")

// HCA is one adapter with one port and one shard.
type HCA struct {
	cfg   Config
	shard *Shard
	pds   map[memory.PD]*PD
	cqs   int
	srqs  int
	next  memory.PD
}

// New returns an adapter for a port with the given abilities.
func New(c Config) (*HCA, error) {
	c.fill()
	mtu, ok := activeMTU(c.Caps)
	if !ok {
		return nil, errMTU
	}
	h := &HCA{cfg: c, pds: make(map[memory.PD]*PD)}
	h.shard = newShard(&h.cfg, mtu)
	return h, nil
}

// headroom is what the largest packet needs beside its payload, as Linux
// counts it: BTH, RETH and ICRC.
const headroom = 32

// Shard returns the adapter's shard.
func (h *HCA) Shard() *Shard { return h.shard }

// Limits returns what the adapter may hold.
func (h *HCA) Limits() Limits { return h.cfg.Limits }

// ActiveMTU returns the largest path MTU of the port.
func (h *HCA) ActiveMTU() ib.MTU { return h.shard.env.Limits.ActiveMTU }

// PKeys returns the port's P_Key table, which the caller must not change.
func (h *HCA) PKeys() []ib.PKey { return h.cfg.PKeys }

// Counters returns the counts so far.
func (h *HCA) Counters() qp.Counters { return h.shard.counters }

// Count returns a counter to change, for the driver's own.
func (h *HCA) Count() *qp.Counters { return &h.shard.counters }

// PD is a protection domain.
type PD struct {
	hca   *HCA
	ID    memory.PD
	users int
}

// AllocPD returns a new protection domain (V2).
func (h *HCA) AllocPD() (*PD, error) {
	if len(h.pds) >= h.cfg.Limits.MaxPD {
		return nil, ErrNoResources
	}
	for h.next++; h.next == 0 || h.pds[h.next] != nil; h.next++ {
	}
	pd := &PD{hca: h, ID: h.next}
	h.pds[pd.ID] = pd
	return pd, nil
}

// Dealloc ends a protection domain; EBUSY while regions, QPs, SRQs or address
// handles are in it.
func (p *PD) Dealloc() error {
	if !p.hca.valid(p) {
		return ErrInvalidPD
	}
	if p.users != 0 {
		return fmt.Errorf("protection domain has %d objects: %w", p.users, ErrBusy)
	}
	delete(p.hca.pds, p.ID)
	return nil
}

// valid reports whether p is a live protection domain of h.
func (h *HCA) valid(p *PD) bool { return p != nil && p.hca == h && h.pds[p.ID] == p }

// RegMR registers memory in a protection domain, which takes the place of
// c.PD. The region keeps c.Buf until DeregMR. Errors as memory.Table.Register.
func (p *PD) RegMR(c memory.RegionConfig) (*memory.Region, error) {
	if !p.hca.valid(p) {
		return nil, ErrInvalidPD
	}
	c.PD = p.ID
	r, err := p.hca.shard.env.Mem.Register(c)
	if err == nil {
		p.users++
	}
	return r, err
}

// ReregMR changes a region; a new protection domain of it counts from then on.
func (p *PD) ReregMR(r *memory.Region, what memory.Change, c memory.RegionConfig, to *PD) error {
	if !p.hca.valid(to) {
		return ErrInvalidPD
	}
	c.PD = to.ID
	if err := p.hca.shard.env.Mem.Reregister(r, what, c); err != nil {
		return err
	}
	if what&memory.ChangePD != 0 {
		p.users--
		to.users++
	}
	return nil
}

// DeregMR ends a region: no packet touches its memory afterwards.
func (p *PD) DeregMR(r *memory.Region) error {
	err := p.hca.shard.env.Mem.Deregister(r)
	if err == nil {
		p.users--
	}
	return err
}

// CreateCQ returns a completion queue of at least n entries. onEvent is
// called when an armed queue gets a matching completion; it must not block.
func (h *HCA) CreateCQ(n uint32, onEvent func()) (*qp.CQ, error) {
	switch {
	case n == 0 || n > h.cfg.Limits.MaxCQE:
		return nil, fmt.Errorf("CQ of %d entries: the adapter takes 1 to %d: %w", n, h.cfg.Limits.MaxCQE, ib.EINVAL)
	case h.cqs >= h.cfg.Limits.MaxCQ:
		return nil, ErrNoResources
	}
	h.cqs++
	return qp.NewCQ(n, onEvent), nil
}

// ResizeCQ changes the number of entries (V3).
func (h *HCA) ResizeCQ(c *qp.CQ, n uint32) error {
	if n == 0 || n > h.cfg.Limits.MaxCQE {
		return fmt.Errorf("CQ of %d entries: the adapter takes 1 to %d: %w", n, h.cfg.Limits.MaxCQE, ib.EINVAL)
	}
	return c.Resize(n)
}

// DestroyCQ ends a completion queue; EBUSY while QPs complete to it.
func (h *HCA) DestroyCQ(c *qp.CQ) error {
	if n := c.Users(); n != 0 {
		return fmt.Errorf("completion queue serves %d work queues: %w", n, ErrBusy)
	}
	h.cqs--
	return nil
}

// CreateSRQ returns a shared receive queue of at least wr work requests.
func (p *PD) CreateSRQ(wr, sge, limit uint32) (*qp.SRQ, error) {
	h := p.hca
	l := &h.cfg.Limits
	switch {
	case !h.valid(p):
		return nil, ErrInvalidPD
	case wr == 0 || wr > l.MaxSRQWR:
		return nil, fmt.Errorf("SRQ of %d work requests: the adapter takes 1 to %d: %w", wr, l.MaxSRQWR, ib.EINVAL)
	case sge > l.MaxSGE:
		return nil, fmt.Errorf("SRQ of %d scatter elements: the adapter takes %d: %w", sge, l.MaxSGE, ib.EINVAL)
	case h.srqs >= l.MaxSRQ:
		return nil, ErrNoResources
	}
	var s *qp.SRQ
	s = qp.NewSRQ(p.ID, wr, max(sge, 1), func() {
		h.cfg.Raise(qp.Event{Type: ib.EventSRQLimitReached, SRQ: s})
	})
	if err := s.SetLimit(limit); err != nil {
		return nil, err
	}
	h.srqs++
	p.users++
	return s, nil
}

// DestroySRQ ends a shared receive queue; EBUSY while QPs use it.
func (p *PD) DestroySRQ(s *qp.SRQ) error {
	if n := s.Users(); n != 0 {
		return fmt.Errorf("shared receive queue serves %d QPs: %w", n, ErrBusy)
	}
	p.hca.srqs--
	p.users--
	return nil
}

// CreateAH resolves an address vector into an address handle.
func (p *PD) CreateAH(av *ib.AHAttr) (ib.AHHandle, error) {
	if !p.hca.valid(p) {
		return 0, ErrInvalidPD
	}
	path, err := p.hca.shard.route(av, 0)
	if err != nil {
		return 0, err
	}
	h, ok := p.hca.shard.env.AHs.Add(qp.AH{PD: p.ID, Path: path})
	if !ok {
		return 0, ErrNoResources
	}
	p.users++
	return h, nil
}

// DestroyAH ends an address handle. A work request that still names it
// completes with LOC_QP_OP_ERR.
func (p *PD) DestroyAH(a ib.AHHandle) error {
	if !p.hca.shard.env.AHs.Remove(a) {
		return fmt.Errorf("no such address handle: %w", ib.EINVAL)
	}
	p.users--
	return nil
}
