package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/hca"
)

// PD is a protection domain: its regions, QPs, SRQs and address handles can be
// used together.
type PD struct {
	ctx *Context
	dev *device.Device
	pd  *hca.PD
}

// AllocPD returns a new protection domain. ENOMEM when there are no more.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{ctx: c, dev: c.dev()}
	err := p.call("AllocPD", func(clock.Instant) (err error) {
		p.pd, err = p.dev.HCA.AllocPD()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("allocate PD: %w", err)
	}
	return p, nil
}

// Context returns the adapter of the protection domain; nil for a nil PD.
func (p *PD) Context() *Context {
	if p == nil {
		return nil
	}
	return p.ctx
}

// Dealloc deallocates a protection domain. ErrBusy while it contains objects,
// ErrInvalidPD if it was deallocated before.
func (p *PD) Dealloc() error {
	return wrap("deallocate PD", p.call("DeallocPD", func(clock.Instant) error { return p.pd.Dealloc() }))
}

// call is Device.Call for verbs that concern no other object.
func (p *PD) call(verb string, f func(now clock.Instant) error) error {
	if p == nil {
		return ErrInvalidPD
	}
	return p.dev.Call(verb, nil, f)
}
