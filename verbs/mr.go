package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/memory"
)

// MR is a memory region: memory that the adapter may access for work requests and, with
// remote rights, for the peer. The methods of a nil MR return zero values.
type MR struct{ obj device.MR }

// object returns the device's object; nil for a nil MR.
func (m *MR) object() *device.MR {
	if m == nil {
		return nil
	}
	return &m.obj
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
	return p.RegMREx(&MRAttr{Buf: buf, Access: access})
}

// MRAttr describes a memory region for RegMREx: either Buf, or memory that Go does not manage,
// such as C's or a mapped device's, by its Addr and Length in bytes. That memory should stay
// readable and writable until Dereg: an access to memory that is not mapped fails, here with
// LOC_PROT_ERR, at the peer with REM_ACCESS_ERR.
type MRAttr struct {
	Buf    []byte
	Addr   uintptr
	Length uint64
	Access Access
	// IOVA is the address of the region's first byte in work requests and for the peer. 0 means
	// that of the memory or, with the right ZERO_BASED, 0.
	IOVA uint64
	// Invalidatable regions can be invalidated by the peer's SEND with invalidate, like
	// fast-registered regions.
	Invalidatable bool
}

// RegMREx registers memory as RegMR does, with all attributes. EINVAL also if the attributes have
// both Buf and Addr, or if the range wraps or is longer than the address space.
func (p *PD) RegMREx(attr *MRAttr) (*MR, error) {
	if attr == nil {
		return nil, fmt.Errorf("register MR: %w", errNoAttr)
	}
	c := memory.RegionConfig{Buf: attr.Buf, IOVA: attr.IOVA, Access: attr.Access, Invalidatable: attr.Invalidatable}
	if attr.Addr != 0 || attr.Length != 0 {
		if attr.Buf != nil {
			return nil, fmt.Errorf("register MR: both Buf and Addr are set: %w", ib.EINVAL)
		}
		var err error
		if c.Buf, err = memory.RawBuf(attr.Addr, attr.Length); err != nil {
			return nil, fmt.Errorf("register MR at %#x: %w", attr.Addr, err)
		}
		c.Foreign = true
	}
	m := &MR{}
	if err := p.object().RegMR(&m.obj, c); err != nil {
		return nil, fmt.Errorf("register MR of %d bytes: %w", len(c.Buf), err)
	}
	return m, nil
}

// LKey returns the key for scatter/gather elements. ReregMemory changes it.
func (m *MR) LKey() LKey { return m.object().View().LKey }

// RKey returns the key for the peer; 0 if the region gives it no rights. ReregMemory
// changes it.
func (m *MR) RKey() RKey { return m.object().View().RKey }

// Addr returns the address of the region's first byte in work requests and for the peer:
// that of the memory, or the IOVA of RegMREx.
func (m *MR) Addr() uint64 { return m.object().View().Addr }

// Len returns the size of the region in bytes.
func (m *MR) Len() uint64 { return uint64(len(m.Bytes())) }

// Bytes returns the memory itself, not a copy. After Dereg the slice is still valid, unless
// the program has freed memory that it registered by its address.
func (m *MR) Bytes() []byte { return m.object().View().Buf }

// SGE returns a scatter/gather element for n bytes from offset off. It checks neither: a
// request whose element exceeds the region completes with LOC_PROT_ERR.
func (m *MR) SGE(off uint64, n uint32) SGE {
	v := m.object().View()
	return SGE{Addr: v.Addr + off, Length: n, LKey: v.LKey}
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
	return m.rereg(memory.ChangePD, memory.RegionConfig{}, to.object())
}

// ReregMemory registers other memory for the region, under new keys. When it
// returns, the adapter no longer accesses the previous memory.
func (m *MR) ReregMemory(buf []byte) error {
	return m.rereg(memory.ChangeTranslation, memory.RegionConfig{Buf: buf}, nil)
}

func (m *MR) rereg(what memory.Change, c memory.RegionConfig, to *device.PD) error {
	return wrap("re-register MR", m.object().Rereg(what, c, to))
}

// Dereg deregisters the region. When it returns, the adapter no longer accesses
// the memory. A work request that still names the region completes in error.
// EINVAL for a region that is already deregistered.
func (m *MR) Dereg() error { return wrap("deregister MR", m.object().Dereg()) }
