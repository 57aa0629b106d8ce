package memory

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// windowRig is a table with a region of 64 bytes at address 1000, and a window of each type.
type windowRig struct {
	*Table
	t    *testing.T
	r    *Region
	one  *Window
	two  *Window
	via  Via
	base uint64
}

func newWindowRig(t *testing.T) *windowRig {
	tab := NewTable(seeded(), Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 64), IOVA: 1000, Access: ib.AccessLocalWrite | ib.AccessMWBind})
	one, err := tab.AllocWindow(1, ib.MWType1)
	must.Do(t, err)
	two, err := tab.AllocWindow(1, ib.MWType2)
	must.Do(t, err)
	return &windowRig{tab, t, r, one, two, Via{1, 7}, 1000}
}

// binding binds the bytes 8 to 23 of the region with all rights.
func (g *windowRig) binding(w *Window) ib.MWBind {
	return ib.MWBind{
		RKey: w.RKey(), NewRKey: w.RKey().Inc(), LKey: g.r.LKey(),
		Addr: g.base + 8, Length: 16, Access: ib.AccessRemote,
	}
}

func (g *windowRig) bind(w *Window) {
	g.t.Helper()
	b := g.binding(w)
	if f := g.Bind(g.via, &b); f != FaultNone {
		g.t.Fatalf("bind: %v", f)
	}
}

// use tries to write the window's first byte.
func (g *windowRig) use(via Via, key ib.RKey, want Fault, why string) {
	g.t.Helper()
	if _, f := g.Remote(via, key, g.base+8, 1, ib.AccessRemoteWrite); f != want {
		g.t.Errorf("%s: %v, want %v", why, f, want)
	}
}

func TestM1_M2_BindRefuses(t *testing.T) {
	for _, c := range []struct {
		what   string
		window func(*windowRig) *Window
		change func(*windowRig, *ib.MWBind)
		want   Fault
	}{
		{"no such window", nil, func(g *windowRig, b *ib.MWBind) { b.RKey ^= 1 << 12 }, FaultKey},
		{"the same tag", nil, func(g *windowRig, b *ib.MWBind) { b.NewRKey = b.RKey }, FaultKey},
		{"the key of a region", nil, func(g *windowRig, b *ib.MWBind) { b.RKey = ib.RKey(b.LKey) }, FaultKey},
		{"no such region", nil, func(g *windowRig, b *ib.MWBind) { b.LKey ^= 1 << 12 }, FaultKey},
		{"before the region", nil, func(g *windowRig, b *ib.MWBind) { b.Addr = g.base - 1 }, FaultRange},
		{"behind the region", nil, func(g *windowRig, b *ib.MWBind) { b.Length = 57 }, FaultRange},
		{"around the end of memory", nil, func(g *windowRig, b *ib.MWBind) { b.Length = -b.Addr }, FaultRange},
		{"the right to bind, of a window", nil, func(g *windowRig, b *ib.MWBind) { b.Access |= ib.AccessMWBind }, FaultAccess},
		{"type 2 without bytes", (*windowRig).second, func(g *windowRig, b *ib.MWBind) { b.Length = 0 }, FaultRange},
		{"type 1 zero-based", (*windowRig).first, func(g *windowRig, b *ib.MWBind) { b.Access |= ib.AccessZeroBased }, FaultType},
		{"type 2 that is bound", (*windowRig).second, func(g *windowRig, b *ib.MWBind) {
			g.bind(g.two)
			*b = g.binding(g.two)
		}, FaultBound},
		{"a region without MW_BIND", nil, func(g *windowRig, b *ib.MWBind) { g.r.access &^= ib.AccessMWBind }, FaultAccess},
		{"a region without LOCAL_WRITE", nil, func(g *windowRig, b *ib.MWBind) { g.r.access &^= ib.AccessLocalWrite }, FaultAccess},
		{"a zero-based region", nil, func(g *windowRig, b *ib.MWBind) { g.r.access |= ib.AccessZeroBased }, FaultAccess},
		{"a region of another domain", nil, func(g *windowRig, b *ib.MWBind) { g.r.pd = 2 }, FaultPD},
		{"a queue pair of another domain", nil, func(g *windowRig, b *ib.MWBind) { g.via.PD = 2 }, FaultPD},
		{"an invalidated region", nil, func(g *windowRig, b *ib.MWBind) { g.r.invalidated = true }, FaultInvalidated},
	} {
		for _, pick := range []func(*windowRig) *Window{(*windowRig).first, (*windowRig).second} {
			if c.window != nil {
				pick = c.window
			}
			g := newWindowRig(t)
			b := g.binding(pick(g))
			c.change(g, &b)
			key, bound, windows := pick(g).RKey(), pick(g).Bound(), g.r.windows
			if f := g.Bind(g.via, &b); f != c.want {
				t.Errorf("%s, %v: %v, want %v", c.what, pick(g).Type(), f, c.want)
			}
			if w := pick(g); w.RKey() != key || w.Bound() != bound || g.r.windows != windows {
				t.Errorf("%s, %v: the refused bind changed the window: %+v", c.what, w.Type(), w)
			}
		}
	}
}

func (g *windowRig) first() *Window  { return g.one }
func (g *windowRig) second() *Window { return g.two }

// TestM1_Rebind: a window of type 1 gives up its old memory and its old key when it is bound
// again, and with no bytes gets none.
func TestM1_Rebind(t *testing.T) {
	g := newWindowRig(t)
	g.use(g.via, g.one.RKey(), FaultUnbound, "before the first bind")
	g.bind(g.one)
	old := g.one.RKey()
	g.use(g.via, old, FaultNone, "bound")
	g.use(Via{1, 8}, old, FaultNone, "through another queue pair")
	g.use(Via{2, 7}, old, FaultPD, "through another domain")
	b := g.binding(g.one)
	b.Addr, b.Access = g.base+9, ib.AccessRemoteRead
	if f := g.Bind(g.via, &b); f != FaultNone || g.r.windows != 1 {
		t.Fatalf("rebind: %v, %d windows", f, g.r.windows)
	}
	g.use(g.via, old, FaultKey, "the key before the second bind")
	b.RKey, b.NewRKey = old, old.Tagged(0xa5)
	if f := g.Bind(g.via, &b); f != FaultNone || g.one.RKey() != old.Tagged(0xa5) {
		t.Fatalf("bind by an old key: %v, %v", f, g.one.RKey())
	}
	g.use(g.via, g.one.RKey(), FaultAccess, "a right of the first bind")
	b = ib.MWBind{RKey: g.one.RKey(), NewRKey: g.one.RKey().Inc()}
	if f := g.Bind(g.via, &b); f != FaultNone || g.r.windows != 0 {
		t.Fatalf("unbind: %v, %d windows", f, g.r.windows)
	}
	g.use(g.via, g.one.RKey(), FaultUnbound, "unbound")
}

// TestM2_InvalidateAndBindAgain: a window of type 2 belongs to the queue pair that it was
// bound on, which invalidates it before it binds it again.
func TestM2_InvalidateAndBindAgain(t *testing.T) {
	g := newWindowRig(t)
	g.bind(g.two)
	old := g.two.RKey()
	g.use(g.via, old, FaultNone, "bound")
	g.use(Via{1, 8}, old, FaultQP, "through another queue pair")
	for via, want := range map[Via]Fault{{1, 8}: FaultQP, {2, 7}: FaultPD} {
		if f := g.Invalidate(via, old); f != want {
			t.Errorf("invalidate via %v: %v, want %v", via, f, want)
		}
	}
	g.use(g.via, old, FaultNone, "still bound")
	if f := g.Invalidate(g.via, old); f != FaultNone {
		t.Errorf("invalidate: %v", f)
	}
	g.use(g.via, old, FaultUnbound, "invalidated")
	if f := g.Invalidate(g.via, old); f != FaultUnbound {
		t.Errorf("invalidate twice: %v", f)
	}
	g.via.QP = 8
	g.bind(g.two)
	g.use(Via{1, 7}, g.two.RKey(), FaultQP, "through the first queue pair")
	g.use(g.via, old, FaultKey, "the key of the first bind")
	g.bind(g.one)
	if f := g.Invalidate(g.via, g.one.RKey()); f != FaultType {
		t.Errorf("invalidate type 1: %v", f)
	}
}

// TestM2_ZeroBased: the addresses of a zero-based window count from its first byte.
func TestM2_ZeroBased(t *testing.T) {
	g := newWindowRig(t)
	b := g.binding(g.two)
	b.Access |= ib.AccessZeroBased
	if f := g.Bind(g.via, &b); f != FaultNone {
		t.Fatal(f)
	}
	v, f := g.Remote(g.via, g.two.RKey(), 3, 13, ib.AccessRemoteRead)
	if f != FaultNone || &v[0] != &g.r.buf[11] {
		t.Errorf("13 bytes at 3: %v", f)
	}
	if _, f := g.Remote(g.via, g.two.RKey(), 3, 14, ib.AccessRemoteRead); f != FaultRange {
		t.Errorf("a byte behind the window: %v", f)
	}
}

// TestM1_M2_RegionKeepsItsWindows: a region with windows neither goes nor changes.
func TestM1_M2_RegionKeepsItsWindows(t *testing.T) {
	g := newWindowRig(t)
	g.r.access |= ib.AccessRemoteRead
	g.r.invalidatable = true
	g.bind(g.one)
	g.bind(g.two)
	for _, w := range []*Window{g.one, g.two} {
		must.Fail(t, g.Deregister(g.r), ib.EINVAL, "deregister")
		must.Fail(t, g.Reregister(g.r, ChangeAccess, RegionConfig{}), ib.EINVAL, "reregister")
		if f := g.Invalidate(g.via, g.r.RKey()); f != FaultBound {
			t.Errorf("invalidate the region: %v", f)
		}
		must.Do(t, g.DeallocWindow(w))
	}
	must.Do(t, g.Deregister(g.r))
}

// TestM2_WindowsLeaveWithTheirQueuePair: the windows of a destroyed queue pair free their
// region, in whatever order they were bound; those of others and of type 1 stay.
func TestM2_WindowsLeaveWithTheirQueuePair(t *testing.T) {
	g := newWindowRig(t)
	g.bind(g.one)
	var ws []*Window
	for i := range 6 {
		w, err := g.AllocWindow(1, ib.MWType2)
		must.Do(t, err)
		g.via.QP = Serial(7 + i%2)
		g.bind(w)
		ws = append(ws, w)
	}
	must.Do(t, g.DeallocWindow(ws[2])) // in the middle of the list
	for w := g.bound[7]; w.next != nil; w = w.next {
		if w.next.prev != w {
			t.Fatal("the list of a queue pair's windows is broken, so Leave may not end")
		}
	}
	g.Leave(7)
	for i, w := range ws {
		if w.Bound() != (i%2 == 1) {
			t.Errorf("window %d is bound: %v", i, w.Bound())
		}
	}
	if !g.one.Bound() || g.r.windows != 4 {
		t.Errorf("%d windows are bound to the region, want 4", g.r.windows)
	}
	g.Leave(8)
	if len(g.bound) != 0 || g.r.windows != 1 {
		t.Errorf("lists of %d queue pairs, %d windows", len(g.bound), g.r.windows)
	}
}

// TestFullOfWindows: the table holds as many windows as it was given room for.
func TestFullOfWindows(t *testing.T) {
	g := newWindowRig(t)
	for range 6 {
		_, err := g.AllocWindow(1, ib.MWType2)
		must.Do(t, err)
	}
	_, err := g.AllocWindow(1, ib.MWType2)
	must.Fail(t, err, ib.ENOMEM, "window 9 of 8")
	must.Do(t, g.DeallocWindow(g.one))
	must.Fail(t, g.DeallocWindow(g.one), ib.EINVAL, "deallocate twice")
	must.Fail(t, g.DeallocWindow(nil), ib.EINVAL, "deallocate nothing")
	_, err = g.AllocWindow(1, ib.MWType1)
	must.Do(t, err)
	_, err = g.AllocWindow(0, ib.MWType1)
	must.Fail(t, err, ib.EINVAL, "no domain")
	_, err = g.AllocWindow(1, 3)
	must.Fail(t, err, ib.EINVAL, "type 3")
}

// TestWindowsWithoutFreeKeys: a source that repeats itself makes the allocation fail.
func TestWindowsWithoutFreeKeys(t *testing.T) {
	tab := NewTable(func() uint32 { return 0xabcdef01 }, Limits{8, 8})
	_, err := tab.AllocWindow(1, ib.MWType1)
	must.Do(t, err)
	_, err = tab.AllocWindow(1, ib.MWType1)
	must.Fail(t, err, ib.ENOMEM, "no free key")
}
