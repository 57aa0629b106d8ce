package device

import (
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
)

// PD is a protection domain with its verbs. The program's object holds it, and has AllocPD make
// it. Each verb of a nil or deallocated one returns ib.ErrInvalidPD.
type PD struct {
	dev *Device
	pd  *hca.PD
}

// AllocPD makes p a new protection domain.
func (d *Device) AllocPD(p *PD) error {
	return d.Call("AllocPD", func(clock.Instant) (err error) {
		p.dev = d
		p.pd, err = d.HCA.AllocPD()
		return err
	})
}

// Dealloc deallocates the protection domain, which must be empty.
func (p *PD) Dealloc() error {
	return p.call("DeallocPD", func(clock.Instant) error { return p.pd.Dealloc() })
}

// call is Device.Call for verbs that concern no other object.
func (p *PD) call(verb string, f func(now clock.Instant) error) error {
	if p == nil {
		return ib.ErrInvalidPD
	}
	return p.dev.Call(verb, f)
}

// CreateAH resolves an address vector into an address handle.
func (p *PD) CreateAH(av *ib.AHAttr) (h ib.AHHandle, err error) {
	err = p.call("CreateAH", func(clock.Instant) (err error) {
		h, err = p.pd.CreateAH(av)
		return err
	})
	return h, err
}

// DestroyAH destroys an address handle.
func (p *PD) DestroyAH(h ib.AHHandle) error {
	return p.call("DestroyAH", func(clock.Instant) error { return p.pd.DestroyAH(h) })
}

// ErrNoMR is the error of verbs of a nil memory region.
var ErrNoMR = fmt.Errorf("no memory region: %w", ib.EINVAL)

// MR is a memory region with its verbs, as PD is a protection domain.
type MR struct {
	dev  *Device
	view atomic.Pointer[MRView] // of the latest registration

	// The control plane guards what follows.
	pd *hca.PD
	r  *memory.Region
}

// MRView has the properties of a memory region that a program reads.
type MRView struct {
	Buf    []byte
	Len    uint64
	Addr   uint64 // that work requests and peers use
	LKey   ib.LKey
	RKey   ib.RKey // 0 without remote rights
	Access ib.Access
}

// View returns the properties since the latest registration; none for a nil region.
func (m *MR) View() MRView {
	if m == nil {
		return MRView{}
	}
	return *m.view.Load()
}

// On reports whether the region is one of the device.
func (m *MR) On(d *Device) bool { return m != nil && m.r != nil && m.dev == d }

// publish renews the view. The control plane calls it.
func (m *MR) publish(buf []byte) {
	m.view.Store(&MRView{buf, m.r.Len(), m.r.Addr(), m.r.LKey(), m.r.RKey(), m.r.Access()})
}

// RegMR makes m a region of the protection domain.
func (p *PD) RegMR(m *MR, c memory.RegionConfig) error {
	examine(&c, c.Access, c.Buf)
	return p.call("RegMR", func(clock.Instant) (err error) {
		if m.r, err = p.pd.RegMR(c); err != nil {
			return err
		}
		m.dev, m.pd = p.dev, p.pd
		m.publish(c.Buf)
		return nil
	})
}

// Rereg changes what the mask names to the values of c, and the protection domain to another one
// of the adapter. If it fails, nothing has changed.
func (m *MR) Rereg(what memory.Change, c memory.RegionConfig, to *PD) error {
	if m == nil {
		return ErrNoMR
	}
	if what&memory.ChangePD != 0 && (to == nil || to.dev != m.dev) {
		return ib.ErrInvalidPD
	}
	access, buf := c.Access, c.Buf
	if v := m.View(); what&memory.ChangeAccess == 0 {
		access = v.Access
	} else if what&memory.ChangeTranslation == 0 {
		buf = v.Buf
	}
	examine(&c, access, buf)
	return m.dev.Call("ReregMR", func(clock.Instant) error {
		pd := m.pd
		if what&memory.ChangePD != 0 {
			pd = to.pd
		}
		if err := m.pd.ReregMR(m.r, what, c, pd); err != nil {
			return err
		}
		if what&memory.ChangeTranslation == 0 {
			c.Buf = m.View().Buf
		}
		m.pd = pd
		m.publish(c.Buf)
		return nil
	})
}

// Dereg deregisters the region: no packet accesses its memory afterwards.
func (m *MR) Dereg() error {
	if m == nil {
		return ErrNoMR
	}
	return m.dev.Call("DeregMR", func(clock.Instant) error { return m.pd.DeregMR(m.r) })
}
