package device

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
)

// ErrNoDM is the error of verbs of nil device memory.
var ErrNoDM = fmt.Errorf("no device memory: %w", ib.EINVAL)

// DM is device memory with its verbs, as PD is a protection domain.
type DM struct {
	dev *Device
	dm  *hca.DM
}

// AllocDM makes m device memory of size bytes at a multiple of 2^logAlign.
func (d *Device) AllocDM(m *DM, size uint64, logAlign uint32) error {
	return d.Call("AllocDM", func(clock.Instant) (err error) {
		m.dev = d
		m.dm, err = d.HCA.AllocDM(size, logAlign)
		return err
	})
}

// Free frees the memory; EBUSY while regions cover it.
func (m *DM) Free() error {
	if m == nil || m.dm == nil {
		return ErrNoDM
	}
	return m.dev.Call("FreeDM", func(clock.Instant) error { return m.dm.Free() })
}

// Bytes returns the memory itself, which is valid until Free; nil for nil device memory.
func (m *DM) Bytes() []byte {
	if m == nil || m.dm == nil {
		return nil
	}
	return m.dm.Bytes()
}

// RegDM makes m a region of the protection domain that covers n bytes of device memory from
// offset off on.
func (p *PD) RegDM(m *MR, dm *DM, off, n uint64, c memory.RegionConfig) error {
	if dm == nil {
		return ErrNoDM
	}
	return p.call("RegMR", func(clock.Instant) (err error) {
		if m.r, err = p.pd.RegDM(dm.dm, off, n, c); err != nil {
			return err
		}
		m.dev, m.pd = p.dev, p.pd
		m.publish(dm.dm.Bytes()[off : off+n : off+n])
		return nil
	})
}
