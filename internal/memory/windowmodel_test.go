package memory

import (
	"math/big"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"pgregory.net/rapid"
)

// modelWindow is what the model knows of a window.
type modelWindow struct {
	w   *Window
	key uint32
	typ ib.MWType
	pd  PD

	region *modelRegion // nil: it is not bound
	at     int          // first byte of the region
	bind   ib.MWBind
	qp     Serial
}

// fresh checks that a new key has the index of no live one.
func (m *model) fresh(t *rapid.T, key uint32) {
	for _, old := range m.live {
		if old.key>>8 == key>>8 {
			t.Fatalf("key %#x has the index of region %#x", key, old.key)
		}
	}
	for _, old := range m.windows {
		if old.key>>8 == key>>8 {
			t.Fatalf("key %#x has the index of window %#x", key, old.key)
		}
	}
}

func (m *model) window(key uint32) *modelWindow {
	for _, w := range m.windows {
		if w.key == key {
			return w
		}
	}
	return nil
}

// indexed returns the window with the index of a key.
func (m *model) indexed(key uint32) *modelWindow {
	for _, w := range m.windows {
		if w.key>>8 == key>>8 {
			return w
		}
	}
	return nil
}

func drawVia(t *rapid.T) Via {
	return Via{drawPD(t), Serial(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "qp"))}
}

func (m *model) drawWindow(t *rapid.T) *modelWindow {
	if len(m.windows) == 0 {
		t.Skip("no window") // rapid picks another action
	}
	return rapid.SampledFrom(m.windows).Draw(t, "window")
}

// drawWindowKey returns mostly keys of windows, else dead ones and those of regions.
func (m *model) drawWindowKey(t *rapid.T) uint32 {
	switch rapid.IntRange(0, 9).Draw(t, "which") {
	case 0:
		return m.drawKey(t)
	case 1:
		return m.drawWindow(t).key ^ 1<<rapid.IntRange(0, 31).Draw(t, "bit")
	case 2:
		if len(m.dead) > 0 {
			return rapid.SampledFrom(m.dead).Draw(t, "dead")
		}
	}
	return m.drawWindow(t).key
}

func (m *model) alloc(t *rapid.T) {
	pd, typ := drawPD(t), ib.MWType(rapid.IntRange(1, 2).Draw(t, "type"))
	w, err := m.tab.AllocWindow(pd, typ)
	if (err == nil) != (len(m.windows) < m.tab.max.Windows) {
		t.Fatalf("allocate window %d: %v", len(m.windows)+1, err)
	}
	if err != nil {
		return
	}
	m.fresh(t, uint32(w.RKey()))
	m.windows = append(m.windows, &modelWindow{w: w, key: uint32(w.RKey()), typ: typ, pd: pd})
}

func (m *model) dealloc(t *rapid.T) {
	w := m.drawWindow(t)
	must.Do(t, m.tab.DeallocWindow(w.w))
	must.Fail(t, m.tab.DeallocWindow(w.w), ib.EINVAL, "deallocate a window twice")
	w.end()
	m.dead = append(m.dead, w.key)
	m.windows = slices.DeleteFunc(m.windows, func(o *modelWindow) bool { return o == w })
}

// end unbinds the window.
func (w *modelWindow) end() {
	if w.region != nil {
		w.region.windows--
		w.region = nil
	}
}

// bindFault returns the expected result of a bind, and the first byte of the region.
func (m *model) bindFault(via Via, b *ib.MWBind) (Fault, int) {
	w := m.indexed(uint32(b.RKey))
	switch {
	case w == nil || uint32(b.NewRKey)&0xff == w.key&0xff:
		return FaultKey, 0
	case w.typ == ib.MWType2 && w.region != nil:
		return FaultBound, 0
	case w.typ == ib.MWType1 && b.Access&ib.AccessZeroBased != 0:
		return FaultType, 0
	case w.pd != via.PD:
		return FaultPD, 0
	case b.Access&(ib.AccessOnDemand|ib.AccessMWBind) != 0:
		return FaultAccess, 0
	case b.Length == 0 && w.typ == ib.MWType2:
		return FaultRange, 0
	case b.Length == 0:
		return FaultNone, 0
	}
	r := m.find(uint32(b.LKey))
	need := ib.AccessMWBind
	if b.Access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) != 0 {
		need |= ib.AccessLocalWrite
	}
	f, at := r.check(via.PD, b.Addr, b.Length, need)
	switch {
	case f != FaultNone && f != FaultRange:
	case r.cfg.Access&ib.AccessZeroBased != 0:
		return FaultAccess, 0
	case r.cfg.Form != FormBuf:
		return FaultRange, 0
	}
	return f, at
}

func (m *model) bind(t *rapid.T) {
	if len(m.live) == 0 {
		t.Skip("no region") // rapid picks another action
	}
	lkey := m.drawKey(t)
	b := ib.MWBind{
		RKey: ib.RKey(m.drawWindowKey(t)), LKey: ib.LKey(lkey), Addr: m.drawInside(t, lkey),
		Length: uint64(rapid.IntRange(0, 12).Draw(t, "length")),
		Access: ib.Access(rapid.IntRange(0, 7).Draw(t, "rights")<<1) & ib.AccessRemote,
	}
	b.NewRKey = ib.RKey(rapid.IntRange(0, 255).Draw(t, "tag"))
	switch rapid.IntRange(0, 9).Draw(t, "odd rights") {
	case 0:
		b.Access |= rapid.SampledFrom([]ib.Access{ib.AccessLocalWrite, ib.AccessOnDemand, ib.AccessMWBind}).Draw(t, "right")
	case 1, 2:
		b.Access |= ib.AccessZeroBased
	}
	via := drawVia(t)
	want, at := m.bindFault(via, &b)
	if f := m.tab.Bind(via, &b); f != want {
		t.Fatalf("bind %+v: got %v, want %v", b, f, want)
	}
	if want != FaultNone {
		return
	}
	w := m.indexed(uint32(b.RKey))
	w.end()
	m.dead = append(m.dead, w.key)
	w.key = w.key&^0xff | uint32(b.NewRKey)
	if b.Length == 0 {
		return
	}
	w.region, w.at, w.bind, w.qp = m.find(lkey), at, b, via.QP
	w.region.windows++
}

// fault returns the expected result of an access through the window.
func (w *modelWindow) fault(via Via, need ib.Access) Fault {
	switch {
	case w.region == nil:
		return FaultUnbound
	case w.pd != via.PD:
		return FaultPD
	case w.typ == ib.MWType2 && w.qp != via.QP:
		return FaultQP
	case w.bind.Access&need != need:
		return FaultAccess
	}
	return FaultNone
}

// start returns the address of the window's first byte.
func (w *modelWindow) start() uint64 {
	if w.bind.Access&ib.AccessZeroBased != 0 {
		return 0
	}
	return w.bind.Addr
}

// through tries a single access through a window.
func (m *model) through(t *rapid.T) {
	key, via, n := m.drawWindowKey(t), drawVia(t), drawLen(t)
	need := ib.Access(1) << rapid.IntRange(1, 3).Draw(t, "need")
	w := m.window(key)
	if w == nil {
		if _, f := m.tab.Remote(via, ib.RKey(key), 0, 1, need); f == FaultNone && m.remote(key) == nil {
			t.Fatalf("key %#x, which names nothing, is good", key)
		}
		return
	}
	addr := w.start() + uint64(rapid.IntRange(-2, 14).Draw(t, "offset"))
	want := FaultNone
	if n > 0 {
		want = w.fault(via, need)
	}
	first := new(big.Int).SetUint64(addr)
	off := new(big.Int).Sub(first, new(big.Int).SetUint64(w.start()))
	end := new(big.Int).Add(off, new(big.Int).SetUint64(n))
	if n > 0 && want == FaultNone && (off.Sign() < 0 || end.Cmp(new(big.Int).SetUint64(w.bind.Length)) > 0) {
		want = FaultRange
	}
	b, f := m.tab.Remote(via, ib.RKey(key), addr, n, need)
	if f != want || f != FaultNone && b != nil {
		t.Fatalf("access to %d bytes at %#x with key %#x: got %v, want %v", n, addr, key, f, want)
	}
	if f == FaultNone && n > 0 && (uint64(len(b)) != n || &b[0] != &w.region.cfg.Buf[w.at+int(off.Int64())]) {
		t.Fatalf("the view of %d bytes at %#x is of other bytes", n, addr)
	}
}

// unbind invalidates a window.
func (m *model) unbind(t *rapid.T) {
	w, via := m.drawWindow(t), drawVia(t)
	want := w.fault(via, 0)
	if w.typ == ib.MWType1 {
		want = FaultType
	}
	if f := m.tab.Invalidate(via, ib.RKey(w.key)); f != want {
		t.Fatalf("invalidate window %#x: got %v, want %v", w.key, f, want)
	}
	if want == FaultNone {
		w.end()
	}
}

// leave destroys a queue pair. Its number is used again: the model's windows must not be
// bound any more.
func (m *model) leave(t *rapid.T) {
	qp := drawVia(t).QP
	m.tab.Leave(qp)
	for _, w := range m.windows {
		if w.typ == ib.MWType2 && w.region != nil && w.qp == qp {
			w.end()
		}
	}
}

func (m *model) sameWindows(t *rapid.T) {
	if m.tab.Windows() != len(m.windows) {
		t.Fatalf("%d windows, want %d", m.tab.Windows(), len(m.windows))
	}
	queuePairs := make(map[Serial]bool)
	for _, w := range m.windows {
		if uint32(w.w.RKey()) != w.key || w.w.Bound() != (w.region != nil) {
			t.Fatalf("window %#x is %+v", w.key, w.w)
		}
		if w.typ == ib.MWType2 && w.region != nil {
			queuePairs[w.qp] = true
		}
	}
	if len(m.tab.bound) != len(queuePairs) {
		t.Fatalf("windows of %d queue pairs are bound, want %d", len(m.tab.bound), len(queuePairs))
	}
}
