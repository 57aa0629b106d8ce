package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/device"
)

// PD is a protection domain: its regions, windows, QPs, SRQs and address handles can be
// used together.
type PD struct {
	ctx *Context
	dev *device.Device
	obj device.PD
}

// AllocPD returns a new protection domain. ENOMEM when there are no more.
func (c *Context) AllocPD() (*PD, error) {
	p := &PD{ctx: c, dev: c.dev()}
	if err := p.dev.AllocPD(&p.obj); err != nil {
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
func (p *PD) Dealloc() error { return wrap("deallocate PD", p.object().Dealloc()) }

// object returns the device's object; nil for a nil PD.
func (p *PD) object() *device.PD {
	if p == nil {
		return nil
	}
	return &p.obj
}
