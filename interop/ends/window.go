package ends

import (
	"context"
	"fmt"
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/verbs"
)

// MW is a memory window.
type MW interface {
	// RKey returns the key: for type 1, the key from the last bind, which must have completed; for
	// type 2, the key from the allocation.
	RKey() ib.RKey
	// Dealloc deallocates the window.
	Dealloc(ctx context.Context) error
}

// Bind describes a bind. With Len 0, BindMW unbinds the window, and still needs Memory.
type Bind struct {
	MW       MW
	Memory   Memory
	Off, Len uint64 // range in the region; it may exceed the region
	Access   ib.Access
}

// ourMW is a window of our adapter. For type 2, RKey keeps returning its first key.
type ourMW struct {
	mw    *verbs.MW
	first ib.RKey
}

// AllocMW returns a memory window that is not bound.
func (o *Ours) AllocMW(_ context.Context, typ ib.MWType) (MW, error) {
	mw, err := o.pd.AllocMW(typ)
	if err != nil {
		return nil, err
	}
	m := &ourMW{mw, mw.RKey()}
	o.mws = append(o.mws, m)
	return m, nil
}

func (m *ourMW) RKey() ib.RKey {
	if m.mw.Type() == ib.MWType2 {
		return m.first
	}
	return m.mw.RKey()
}

func (m *ourMW) Dealloc(context.Context) error {
	mw := m.mw
	m.mw = nil
	return mw.Dealloc()
}

// our converts a bind; key is the window's new key.
func (b *Bind) our(key ib.RKey) *verbs.MWBind {
	if b == nil {
		return nil
	}
	return &verbs.MWBind{MW: b.MW.(*ourMW).mw, RKey: key, MR: b.Memory.(*memory).mr, Addr: b.Memory.Addr() + b.Off, Length: b.Len, Access: b.Access}
}

func (q ourQP) BindMW(_ context.Context, wrID uint64, flags ib.SendFlags, b Bind) error {
	return q.q.BindMW(wrID, flags, *b.our(0))
}

// peerMW is a window of the peer's test agent.
type peerMW struct{ mw *testagent.MW }

// AllocMW returns a memory window that is not bound.
func (p *Peer) AllocMW(ctx context.Context, typ ib.MWType) (MW, error) {
	mw, err := p.pd.AllocMW(ctx, int(typ))
	if err != nil {
		return nil, err
	}
	return peerMW{mw}, nil
}

func (m peerMW) RKey() ib.RKey                     { return m.mw.RKey }
func (m peerMW) Dealloc(ctx context.Context) error { return m.mw.Destroy(ctx) }

func (b *Bind) peer() *testagent.Bind {
	if b == nil {
		return nil
	}
	return &testagent.Bind{MW: b.MW.(peerMW).mw, MR: b.Memory.(peerMemory).MR, Off: b.Off, Len: b.Len, Access: b.Access}
}

func (q peerQP) BindMW(ctx context.Context, wrID uint64, flags ib.SendFlags, b Bind) error {
	return q.QP.BindMW(ctx, wrID, flags, *b.peer())
}

// errNoFlush is the error of a FLUSH that a peer should post: verbs.h and the rxe provider lack FLUSH
// before rdma-core 45.
var errNoFlush = fmt.Errorf("the test agent posts no FLUSH: %w", syscall.EOPNOTSUPP)
