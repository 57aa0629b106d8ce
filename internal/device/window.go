package device

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
)

// ErrNoMW is the error of verbs of a nil memory window.
var ErrNoMW = fmt.Errorf("no memory window: %w", ib.EINVAL)

// MW is a memory window with its verbs, as PD is a protection domain.
type MW struct {
	dev *Device
	w   *memory.Window
	tag atomic.Uint32 // the key with the tag drawn last

	pd *hca.PD // the control plane guards it
}

// AllocMW makes m a memory window of the protection domain.
func (p *PD) AllocMW(m *MW, t ib.MWType) error {
	return p.call("AllocMW", func(clock.Instant) (err error) {
		if m.w, err = p.pd.AllocMW(t); err != nil {
			return err
		}
		m.dev, m.pd = p.dev, p.pd
		return nil
	})
}

// Dealloc deallocates the window: no packet uses it afterwards.
func (m *MW) Dealloc() error {
	if m == nil {
		return ErrNoMW
	}
	return m.dev.Call("DeallocMW", func(clock.Instant) error { return m.pd.DeallocMW(m.w) })
}

// On reports whether the window is one of the device.
func (m *MW) On(d *Device) bool { return m != nil && m.w != nil && m.dev == d }

// Type returns the type, 0 of a nil window.
func (m *MW) Type() ib.MWType {
	if m == nil {
		return 0
	}
	return m.w.Type()
}

// RKey returns the present key, 0 of a nil window.
func (m *MW) RKey() ib.RKey {
	if m == nil {
		return 0
	}
	return m.w.RKey()
}

// DrawKey returns the key with a tag for the next bind: random, so that a peer cannot guess it, and neither
// the present tag nor the one drawn last, whose bind may be in flight.
func (m *MW) DrawKey() ib.RKey {
	for {
		var b [1]byte
		rand.Read(b[:]) // never fails
		now, last := m.w.RKey(), m.tag.Load()
		key := now.Tagged(ib.RKey(b[0]))
		if key != now && uint32(key) != last && m.tag.CompareAndSwap(last, uint32(key)) {
			return key
		}
	}
}
