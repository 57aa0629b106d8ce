package verbs

import (
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
)

// DM is device memory: memory of the adapter that has no address in the program. The program
// copies to and from it, and work requests and peers reach it through a region (MRAttr.DM). Here
// it is memory of the process, so it is not faster than any other; programs written for adapters
// that have it run unchanged. Its methods are safe for concurrent use. The content that
// concurrent accesses to the same bytes leave is undefined.
type DM struct {
	obj   device.DM
	freed atomic.Bool
	ctx   *Context
	check *live.Object
}

// dmUnit is the size of the units in which a program accesses device memory.
const dmUnit = 4

// AllocDM allocates size bytes of device memory, zeroed, at a multiple of 2^logAlign bytes.
// EINVAL for no bytes, for more than DeviceAttr.MaxDMSize and for a logAlign above 12; ENOMEM if
// all device memory together would exceed MaxDMSize.
func (c *Context) AllocDM(size uint64, logAlign uint32) (*DM, error) {
	m := &DM{ctx: c}
	if err := c.dev().AllocDM(&m.obj, size, logAlign); err != nil {
		return nil, fmt.Errorf("allocate device memory: %w", err)
	}
	m.check = c.checks().Made("device memory", 0)
	return m, nil
}

// Len returns the size in bytes; 0 for nil.
func (m *DM) Len() uint64 { return uint64(len(m.object().Bytes())) }

// CopyTo copies data to the memory from offset off on. Both off and the length of data must be
// multiples of 4 (EINVAL), and end within the memory (EFAULT). EINVAL for memory that was freed.
func (m *DM) CopyTo(off uint64, data []byte) error {
	b, err := m.part(off, len(data))
	copy(b, data)
	return wrap("copy to device memory", err)
}

// CopyFrom fills buf with the memory from offset off on. Errors: those of CopyTo.
func (m *DM) CopyFrom(buf []byte, off uint64) error {
	b, err := m.part(off, len(buf))
	copy(buf, b)
	return wrap("copy from device memory", err)
}

// part returns n bytes from offset off on; nil and an error if the program may not
// access them.
func (m *DM) part(off uint64, n int) ([]byte, error) {
	switch size := m.Len(); {
	case m == nil || m.freed.Load():
		return nil, device.ErrNoDM
	case off > size || uint64(n) > size-off:
		return nil, fmt.Errorf("%d bytes at %d of %d: %w", n, off, size, ib.EFAULT)
	case off%dmUnit != 0 || n%dmUnit != 0:
		return nil, fmt.Errorf("%d bytes at %d: no multiples of %d: %w", n, off, dmUnit, ib.EINVAL)
	}
	return m.obj.Bytes()[off:][:n], nil
}

// Free frees the memory. ErrBusy while regions cover it, EINVAL for memory that was freed.
func (m *DM) Free() error {
	err := m.object().Free()
	if err == nil {
		m.freed.Store(true)
	}
	if m != nil {
		_ = ended(m.ctx.checks(), m.check, err)
	}
	return wrap("free device memory", err)
}

// object returns the device's object; nil for nil.
func (m *DM) object() *device.DM {
	if m == nil {
		return nil
	}
	return &m.obj
}
