package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
)

// PD is a protection domain: its regions, windows, QPs, SRQs and address handles can be
// used together.
type PD struct {
	ctx *Context
	dev *device.Device
	obj device.PD

	check *live.Object // nil: the program is not checked; so in all objects
}

// AllocPD returns a new protection domain. ENOMEM when there are no more.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{ctx: c, dev: c.dev()}
	if err := p.dev.AllocPD(&p.obj); err != nil {
		return nil, fmt.Errorf("allocate PD: %w", err)
	}
	p.check = c.checks().Made("protection domain", 0)
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
	return wrap("deallocate PD", ended(p.checks(), p.checked(), p.object().Dealloc()))
}

// checks returns the checker of the domain's adapter; nil for none.
func (p *PD) checks() *live.Checker {
	if p == nil || p.dev == nil {
		return nil
	}
	return p.dev.Check
}

// checked returns the domain for the checker; nil for none.
func (p *PD) checked() *live.Object {
	if p == nil {
		return nil
	}
	return p.check
}

// object returns the device's object; nil for a nil PD.
func (p *PD) object() *device.PD {
	if p == nil {
		return nil
	}
	return &p.obj
}
