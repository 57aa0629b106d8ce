package verbs

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
)

// MW is a memory window. Once a bind has completed, the window's key gives the peer rights to a
// part of a memory region, which needs no remote rights itself, only MW_BIND. The methods of a nil
// MW return zero values.
//
// A window of type 1 belongs to its protection domain: every queue pair there serves its key.
// QP.BindMW binds it, again whenever the program wants, and unbinds it.
//
// A window of type 2 belongs to the queue pair that it was bound on. A BIND_MW of PostSend
// binds it. Before it is bound again it must be invalidated: here by a LOCAL_INV on that queue
// pair, or by the peer's SEND with invalidate. The destruction of the queue pair unbinds it too.
type MW struct {
	obj   device.MW
	pd    *PD
	check *live.Object
}

// AllocMW returns a memory window, which is not bound. EINVAL for a type that does not exist,
// ENOMEM at the limit of windows.
func (p *PD) AllocMW(t MWType) (*MW, error) {
	m := &MW{pd: p}
	if err := p.object().AllocMW(&m.obj, t); err != nil {
		used(p.checks(), err, p.checked())
		return nil, fmt.Errorf("allocate MW: %w", err)
	}
	m.check = p.checks().Made("memory window", 0, p.checked())
	return m, nil
}

// object returns the device's object; nil for a nil MW.
func (m *MW) object() *device.MW {
	if m == nil {
		return nil
	}
	return &m.obj
}

// Type returns the type of the window.
func (m *MW) Type() MWType { return m.object().Type() }

// RKey returns the present key. Each bind that succeeds changes its tag, the low 8 bits, before it
// completes; a bind that fails and an invalidation leave it as it is.
func (m *MW) RKey() RKey { return m.object().RKey() }

// Dealloc unbinds and deallocates the window: afterwards no packet uses its key. EINVAL
// for a window that is already deallocated.
func (m *MW) Dealloc() error {
	err := m.object().Dealloc()
	if m != nil {
		_ = ended(m.pd.checks(), m.check, err)
	}
	return wrap("deallocate MW", err)
}

// MWBind says what a bind binds.
type MWBind struct {
	MW *MW
	// RKey gives the window its new tag, the low 8 bits, which must differ from those of MW.RKey:
	// MW.RKey().Inc(), for example. It is ignored by BindMW, which draws a tag.
	RKey RKey
	// The window covers Length bytes at Addr, an address of the region MR, which must have the
	// right MW_BIND and must not be ZERO_BASED. Without an MR and bytes, BindMW unbinds the window.
	MR     *MR
	Addr   uint64
	Length uint64
	// Access are the rights of the peer: REMOTE_WRITE and REMOTE_ATOMIC, for which the region needs
	// LOCAL_WRITE, and REMOTE_READ. With ZERO_BASED, for type 2 only, the peer's addresses count
	// from the window's first byte.
	Access Access
}

// Errors of binding memory windows.
var (
	errNoWindow   = fmt.Errorf("no memory window of this adapter: %w", ib.EINVAL)
	errBindType   = fmt.Errorf("QP.BindMW binds windows of type 1, BIND_MW those of type 2: %w", ib.EINVAL)
	errBindRegion = fmt.Errorf("no memory region of this adapter: %w", ib.EINVAL)
)

// put converts the bind of a window of type t to the form of a device's engine.
func (b *MWBind) put(d *device.Device, t MWType) (*ib.MWBind, error) {
	switch {
	case b == nil || !b.MW.object().On(d):
		return nil, errNoWindow
	case b.MW.Type() != t:
		return nil, errBindType
	case b.MR == nil && b.Addr == 0 && b.Length == 0:
	case !b.MR.object().On(d):
		return nil, errBindRegion
	}
	return &ib.MWBind{
		RKey: b.MW.RKey(), NewRKey: b.RKey, LKey: b.MR.LKey(), Addr: b.Addr, Length: b.Length, Access: b.Access,
	}, nil
}

// BindMW posts a bind of a memory window of type 1 to the send queue, as PostSend does; flags are
// SendSignaled and SendFence. Its completion has the opcode BIND_MW, and then MW.RKey returns
// the new key; the old one is invalid. With no MR and no bytes, the window is unbound. If the region or the range does
// not allow the bind, it completes with MW_BIND_ERR and the window keeps its key and memory.
// EINVAL for a window of type 2.
func (q *QP) BindMW(wrID uint64, flags SendFlags, b MWBind) error {
	if err := q.object().Usable(device.ErrNoQP); err != nil {
		return wrap("bind MW", err)
	}
	bind, err := b.put(q.dev, ib.MWType1)
	if err != nil {
		return wrap("bind MW", err)
	}
	bind.NewRKey = b.MW.obj.DrawKey()
	if q.check != nil {
		defer q.dev.Check.Tell()
	}
	return wrap("bind MW", q.postBind(&ib.SendWR{WRID: wrID, Opcode: ib.WRBindMW, Flags: flags, Bind: bind}))
}

// postBind posts one request and sends it. Rules of faults for PostSend concern it.
func (q *QP) postBind(wr *ib.SendWR) error {
	if q.dev.Watched("PostSend") {
		if err := q.obj.Called("PostSend", device.ErrNoQP); err != nil {
			return err
		}
	}
	work, err := q.putBind(wr)
	if err == nil {
		q.dev.Post(q.obj.QP, work)
	}
	return err
}

// putBind puts one request into the send queue.
func (q *QP) putBind(wr *ib.SendWR) (qp.Posted, error) {
	if q.check != nil {
		q.beginPost()
		defer q.check.End()
	}
	sends := q.obj.QP.Sends()
	defer sends.Done()
	if q.check == nil {
		err := sends.Post(wr)
		return sends.Posted(), err
	}
	err := q.postChecked(&sends, wr, nil)
	return sends.Posted(), err
}
