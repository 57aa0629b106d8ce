package verbs

import (
	"fmt"
	"math"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/memory"
)

// MR is a memory region: memory that the adapter may access for work requests and, with
// remote rights, for the peer. The methods of a nil MR return zero values.
type MR struct {
	obj   device.MR
	pd    *PD // in which it was registered
	check *live.Region
}

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
// LOCAL_WRITE, and FLUSH_PERSISTENT needs memory that is mapped shared from a file on
// storage, not in tmpfs (EINVAL). Addresses of the region are those of the memory.
// EOPNOTSUPP for unsupported rights, ENOMEM at the limit of regions.
//
// A program may read the data of a peer's RDMA WRITE after a completion that
// shows its arrival, such as that of a WRITE with immediate. To poll the memory
// itself, use sync/atomic.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	return p.RegMREx(&MRAttr{Buf: buf, Access: access})
}

// MRAttr describes a memory region for RegMREx. Its memory is one of these:
//
//   - Buf.
//   - Memory that Go does not manage, such as C's or a mapped device's, by its Addr and Length
//     in bytes. It should stay readable and writable until Dereg: an access to memory that is
//     not mapped fails, here with LOC_PROT_ERR, at the peer with REM_ACCESS_ERR.
//   - The whole address space of the process: Addr 0 and Length math.MaxUint64 with the right
//     ON_DEMAND. Each mapped byte then has its own address. Remote rights let the peer
//     read, or change, everything that the process has, and the region keeps no memory alive.
//   - DM: Length bytes of device memory from its byte Addr on. Addresses of the region count
//     from IOVA.
type MRAttr struct {
	Buf    []byte
	Addr   uintptr
	Length uint64
	DM     *DM
	Access Access
	// IOVA is the address of the region's first byte in work requests and for the peer. 0 means
	// that of the memory, unless HasIOVA is set, the region has the right ZERO_BASED, or the
	// memory is device memory.
	IOVA    uint64
	HasIOVA bool // IOVA is set, also if it is 0
	// Invalidatable regions can be invalidated by the peer's SEND with invalidate, like
	// fast-registered regions.
	Invalidatable bool
}

// config returns the engine's configuration of a region.
func (a *MRAttr) config() (memory.RegionConfig, error) {
	c := memory.RegionConfig{Buf: a.Buf, IOVA: a.IOVA, HasIOVA: a.HasIOVA, Access: a.Access, Invalidatable: a.Invalidatable}
	switch {
	case a.DM != nil && a.Buf != nil:
		return c, fmt.Errorf("both Buf and DM are set: %w", ib.EINVAL)
	case a.DM != nil || a.Addr == 0 && a.Length == 0:
		return c, nil
	case a.Buf != nil:
		return c, fmt.Errorf("both Buf and Addr are set: %w", ib.EINVAL)
	case a.Addr == 0 && a.Length == math.MaxUint64:
		c.Form = memory.FormImplicit
		return c, nil
	}
	var err error
	c.Buf, err = memory.RawBuf(a.Addr, a.Length)
	c.Foreign = true
	return c, err
}

// RegMREx registers memory as RegMR does, with all attributes. EINVAL also if the attributes
// describe more than one kind of memory, or none that exists: the range wraps, or exceeds the
// address space or the device memory.
func (p *PD) RegMREx(attr *MRAttr) (*MR, error) {
	if attr == nil {
		return nil, fmt.Errorf("register MR: %w", errNoAttr)
	}
	c, err := attr.config()
	if err != nil {
		return nil, fmt.Errorf("register MR: %w", err)
	}
	m := &MR{pd: p}
	c.By = p.registers()
	if attr.DM != nil {
		err = p.object().RegDM(&m.obj, attr.DM.object(), uint64(attr.Addr), attr.Length, c)
	} else {
		err = p.object().RegMR(&m.obj, c)
	}
	if err != nil {
		used(p.checks(), err, p.checked())
		return nil, fmt.Errorf("register MR of %d bytes: %w", max(uint64(len(c.Buf)), attr.Length), err)
	}
	if k := p.checks(); k != nil {
		m.check = k.Registered(m.view(p, kindOf(&c, attr.DM), attr.DM))
	}
	return m, nil
}

// AllocNullMR returns a region without memory. A scatter/gather element with its LKey may name
// any address and length: reads return zeros, and what is written is discarded. It takes the
// place of elements that a program does not want, without a buffer. The peer cannot use it.
// ENOMEM at the limit of regions.
func (p *PD) AllocNullMR() (*MR, error) {
	m := &MR{pd: p}
	if err := p.object().RegMR(&m.obj, memory.RegionConfig{Form: memory.FormNull, Access: ib.AccessLocalWrite}); err != nil {
		used(p.checks(), err, p.checked())
		return nil, fmt.Errorf("allocate null MR: %w", err)
	}
	if k := p.checks(); k != nil {
		m.check = k.Registered(m.view(p, live.Other, nil))
	}
	return m, nil
}

// LKey returns the key for scatter/gather elements. A new translation changes it.
func (m *MR) LKey() LKey { return m.object().View().LKey }

// RKey returns the key for the peer; 0 if the region gives it no rights. A new translation
// changes it.
func (m *MR) RKey() RKey { return m.object().View().RKey }

// Addr returns the address of the region's first byte in work requests and for the peer:
// that of the memory, or the IOVA of RegMREx; 0 for the whole address space.
func (m *MR) Addr() uint64 { return m.object().View().Addr }

// Len returns the size of the region in bytes; math.MaxUint64 for the whole address space and
// for a null region.
func (m *MR) Len() uint64 { return m.object().View().Len }

// Bytes returns the memory itself, not a copy; nil for the whole address space and for a null
// region. After Dereg the slice is still valid, unless the program has freed memory that it
// registered by its address.
func (m *MR) Bytes() []byte { return m.object().View().Buf }

// SGE returns a scatter/gather element for n bytes from offset off. It checks neither: a
// request whose element exceeds the region completes with LOC_PROT_ERR.
func (m *MR) SGE(off uint64, n uint32) SGE {
	v := m.object().View()
	return SGE{Addr: v.Addr + off, Length: n, LKey: v.LKey}
}

// ReregFlags says what Rereg changes.
type ReregFlags = ib.ReregFlags

// The flags, with the values of enum ibv_rereg_mr_flags.
const (
	ReregTranslation ReregFlags = ib.ReregTranslation // the memory and its address
	ReregPD          ReregFlags = ib.ReregPD          // the protection domain
	ReregAccess      ReregFlags = ib.ReregAccess      // the rights
)

// Rereg changes what the flags select, all at once: the memory and its address to those of
// attr (Buf, Addr and Length, IOVA and HasIOVA), the rights to attr.Access, and the protection
// domain to another one of the adapter (ErrInvalidPD for any other). attr may be nil if it is
// not needed, and so may to. A new translation gives the region new keys; otherwise they stay.
//
// Errors are those of RegMREx; EINVAL also for no flag, for a region that is deregistered, for
// an invalidated region without a new translation, for a change of ZERO_BASED without a
// new translation, for a null region, and for DM or Invalidatable in attr; EOPNOTSUPP for an
// unknown flag. On an error nothing has changed.
func (m *MR) Rereg(what ReregFlags, attr *MRAttr, to *PD) error {
	if attr == nil {
		attr = new(MRAttr)
		if what&(ReregTranslation|ReregAccess) != 0 {
			return fmt.Errorf("re-register MR: %w", errNoAttr)
		}
	}
	if attr.DM != nil || attr.Invalidatable {
		return fmt.Errorf("re-register MR: no region becomes one of device memory, or invalidatable: %w", ib.EINVAL)
	}
	c, err := attr.config()
	if err != nil {
		return fmt.Errorf("re-register MR: %w", err)
	}
	return m.rereg(what, c, to)
}

// ReregAccess is Rereg for the rights alone.
func (m *MR) ReregAccess(access Access) error {
	return m.rereg(memory.ChangeAccess, memory.RegionConfig{Access: access}, nil)
}

// ReregPD moves the region to another protection domain of the same adapter;
// ErrInvalidPD for any other.
func (m *MR) ReregPD(to *PD) error {
	return m.rereg(memory.ChangePD, memory.RegionConfig{}, to)
}

// ReregMemory is Rereg for the memory alone: it registers buf for the region, under
// new keys. When it returns, the adapter no longer accesses the previous memory.
func (m *MR) ReregMemory(buf []byte) error {
	return m.rereg(memory.ChangeTranslation, memory.RegionConfig{Buf: buf}, nil)
}

func (m *MR) rereg(what memory.Change, c memory.RegionConfig, to *PD) error {
	if m != nil {
		c.By = m.pd.registers()
	}
	if m == nil || m.check == nil {
		return wrap("re-register MR", m.object().Rereg(what, c, to.object()))
	}
	use := m.goes()
	err := m.obj.Rereg(what, c, to.object())
	if what&memory.ChangePD == 0 {
		to = nil
	}
	m.check.Reregistered(err, m.changed(what, &c, to), use)
	m.pd.checks().Tell()
	return wrap("re-register MR", err)
}

// registers returns the function that registers a region, if refusals are traced.
func (p *PD) registers() string {
	if p == nil || p.dev == nil || !p.dev.Explains() {
		return ""
	}
	return live.Caller()
}

// goes looks for a request that uses the region, which is about to change or go.
func (m *MR) goes() live.Use {
	m.pd.dev.Settle()
	return m.check.Goes()
}

// view returns the region for the checker.
func (m *MR) view(p *PD, kind live.Memory, dm *DM) live.RegionView {
	v := m.obj.View()
	r := live.RegionView{Key: v.LKey, Buf: v.Buf, Addr: v.Addr, Access: v.Access, PD: p.checked(), Memory: kind}
	if dm != nil {
		r.DM = dm.check
	}
	return r
}

// changed returns the region for the checker after a change, to another domain unless that is nil.
func (m *MR) changed(what memory.Change, c *memory.RegionConfig, to *PD) live.RegionView {
	was := m.check.View()
	v := m.view(nil, was.Memory, nil)
	v.PD, v.DM = was.PD, was.DM
	if what&memory.ChangeTranslation != 0 {
		v.Memory, v.DM = kindOf(c, nil), nil
	}
	if to != nil {
		v.PD = to.check
	}
	return v
}

// kindOf returns the kind of a region's memory for the checker.
func kindOf(c *memory.RegionConfig, dm *DM) live.Memory {
	switch {
	case dm != nil || c.Form == memory.FormNull:
		return live.Other
	case c.Form == memory.FormImplicit:
		return live.Implicit
	case c.Foreign:
		return live.Foreign
	}
	return live.Program
}

// Dereg deregisters the region. When it returns, the adapter no longer accesses
// the memory. A work request that still names the region completes in error.
// EINVAL for a region that is already deregistered.
func (m *MR) Dereg() error {
	if m == nil || m.check == nil {
		return wrap("deregister MR", m.object().Dereg())
	}
	use := m.goes()
	err := m.obj.Dereg()
	m.check.Deregistered(err, use)
	m.pd.checks().Tell()
	return wrap("deregister MR", err)
}
