package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric/fault"
	"github.com/softhca/softhca/internal/hca"
)

// PD is a protection domain: regions, QPs, SRQs and address handles of one
// work together (V2).
type PD struct {
	ctx *Context
	pd  *hca.PD
}

// AllocPD returns a new protection domain. ENOMEM when there are no more.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{ctx: c}
	err := c.call(fault.AllocPD, subject{}, func(clock.Instant) (err error) {
		p.pd, err = c.hca.AllocPD()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("allocate PD: %w", err)
	}
	return p, nil
}

// Context returns the adapter that the protection domain is of, nil for none.
func (p *PD) Context() *Context {
	if p == nil {
		return nil
	}
	return p.ctx
}

// Dealloc ends a protection domain. ErrBusy while something is in it,
// ErrInvalidPD when it was deallocated before.
func (p *PD) Dealloc() error {
	if err := p.call(fault.DeallocPD, func(clock.Instant) error { return p.pd.Dealloc() }); err != nil {
		return fmt.Errorf("deallocate PD: %w", err)
	}
	return nil
}

// call is do for a verb, which the rules of faults may make fail.
func (p *PD) call(v fault.Verb, f func(now clock.Instant) error) error {
	if p == nil {
		return ErrInvalidPD
	}
	return p.ctx.call(v, subject{}, f)
}

// do runs f as the shard's thread, if p is a protection domain at all.
func (p *PD) do(f func(now clock.Instant) error) error {
	if p == nil {
		return ErrInvalidPD
	}
	return p.ctx.do(f)
}
