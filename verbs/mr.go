package verbs

import (
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
)

// errNoMR is returned for calls on a nil memory region.
var errNoMR = fmt.Errorf("no memory region: %w", ib.EINVAL)

// MR is a memory region.
type MR struct {
	dev  *device.Device
	view atomic.Pointer[mrView] // of the latest registration

	// The device's thread guards what follows.
	pd *hca.PD
	r  *memory.Region
}

// mrView is a snapshot of the properties that a program can read.
type mrView struct {
	buf  []byte
	addr uint64
	lkey LKey
	rkey RKey
}

// publish takes a snapshot of the region for the program. It runs on the device's thread.
func (m *MR) publish(buf []byte) {
	m.view.Store(&mrView{buf, m.r.Addr(), m.r.LKey(), m.r.RKey()})
}

// get returns the latest snapshot; the zero value for a nil region.
func (m *MR) get() mrView {
	if m == nil {
		return mrView{}
	}
	return *m.view.Load()
}

// RegMR registers buf. The adapter reads and writes it while work requests
// name it and, with remote rights, whenever the peer does, until Dereg;
// the memory is kept alive until then. REMOTE_WRITE and REMOTE_ATOMIC need
// LOCAL_WRITE (EINVAL). Addresses of the region are those of the memory.
// EOPNOTSUPP for unsupported rights, ENOMEM at the limit of regions.
//
// A program may read the data of a peer's RDMA WRITE after a completion that
// shows its arrival, such as that of a WRITE with immediate. To poll the memory
// itself, use sync/atomic.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	return p.RegMRIova(buf, 0, access)
}

// RegMRIova registers buf under addresses that begin with iova instead of the
// memory's own; 0 means the memory's own.
func (p *PD) RegMRIova(buf []byte, iova uint64, access Access) (*MR, error) {
	return p.reg(memory.RegionConfig{Buf: buf, IOVA: iova, Access: access})
}

// RegMRInvalidatable registers buf as a region that the peer's SEND with
// invalidate may invalidate, like a fast-registered region.
func (p *PD) RegMRInvalidatable(buf []byte, access Access) (*MR, error) {
	return p.reg(memory.RegionConfig{Buf: buf, Access: access, Invalidatable: true})
}

// RegMRAddr registers length bytes of memory that Go does not manage, such as C's or a mapped
// device's, by its address. The memory should stay readable and writable until Dereg: an access
// to memory that is not mapped fails, here with LOC_PROT_ERR, at the peer with REM_ACCESS_ERR.
// EINVAL if the range wraps or is longer than the address space.
func (p *PD) RegMRAddr(addr uintptr, length uint64, access Access) (*MR, error) {
	buf, err := memory.RawBuf(addr, length)
	if err != nil {
		return nil, fmt.Errorf("register MR at %#x: %w", addr, err)
	}
	return p.reg(memory.RegionConfig{Buf: buf, Access: access, Foreign: true})
}

func (p *PD) reg(c memory.RegionConfig) (*MR, error) {
	m := &MR{}
	err := p.call("RegMR", func(clock.Instant) (err error) {
		if m.r, err = p.pd.RegMR(c); err != nil {
			return err
		}
		m.dev, m.pd = p.dev, p.pd
		m.publish(c.Buf)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("register MR of %d bytes: %w", len(c.Buf), err)
	}
	return m, nil
}

// LKey returns the key for scatter/gather elements.
func (m *MR) LKey() LKey { return m.get().lkey }

// RKey returns the key for the peer; 0 if the region gives it no rights.
func (m *MR) RKey() RKey { return m.get().rkey }

// Addr returns the address of the region's first byte.
func (m *MR) Addr() uint64 { return m.get().addr }

// Len returns the region's bytes.
func (m *MR) Len() uint64 { return uint64(len(m.get().buf)) }

// Bytes returns the memory.
func (m *MR) Bytes() []byte { return m.get().buf }

// SGE returns a scatter/gather element for n bytes from offset off.
func (m *MR) SGE(off uint64, n uint32) SGE {
	v := m.get()
	return SGE{Addr: v.addr + off, Length: n, LKey: v.lkey}
}

// ReregAccess changes the rights of the region; its keys stay. Errors are those of
// RegMR, and EINVAL for a region that is deregistered or was invalidated; on an
// error nothing has changed. Both also hold for ReregPD and ReregMemory.
func (m *MR) ReregAccess(access Access) error {
	return m.rereg(memory.ChangeAccess, memory.RegionConfig{Access: access}, nil)
}

// ReregPD moves the region to another protection domain of the same adapter;
// ErrInvalidPD for any other.
func (m *MR) ReregPD(to *PD) error {
	switch {
	case m == nil:
		return errNoMR
	case to == nil || to.dev != m.dev:
		return ErrInvalidPD
	}
	return m.rereg(memory.ChangePD, memory.RegionConfig{}, to.pd)
}

// ReregMemory registers other memory for the region, under new keys. When it
// returns, the adapter no longer accesses the previous memory.
func (m *MR) ReregMemory(buf []byte) error {
	return m.rereg(memory.ChangeTranslation, memory.RegionConfig{Buf: buf}, nil)
}

// rereg changes the region; to is nil if the protection domain stays.
func (m *MR) rereg(what memory.Change, c memory.RegionConfig, to *hca.PD) error {
	if m == nil {
		return errNoMR
	}
	return wrap("re-register MR", m.dev.Call("ReregMR", nil, func(clock.Instant) error {
		if to == nil {
			to = m.pd
		}
		if err := m.pd.ReregMR(m.r, what, c, to); err != nil {
			return err
		}
		if what != memory.ChangeTranslation {
			c.Buf = m.Bytes()
		}
		m.pd = to
		m.publish(c.Buf)
		return nil
	}))
}

// Dereg deregisters the region. When it returns, the adapter no longer accesses
// the memory. A work request that still names the region completes in error.
// EINVAL for a region that is already deregistered.
func (m *MR) Dereg() error {
	if m == nil {
		return errNoMR
	}
	return wrap("deregister MR", m.dev.Call("DeregMR", nil, func(clock.Instant) error { return m.pd.DeregMR(m.r) }))
}
