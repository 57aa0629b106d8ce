package memory

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"pgregory.net/rapid"
)

// model is a naive table: regions in a list, searched one by one, ranges
// compared as big integers, and a copy of all bytes.
type model struct {
	tab  *Table
	live []*modelRegion
	dead []uint32 // keys that were good once

	windows []*modelWindow
}

// modelRegion is what the model knows of a region.
type modelRegion struct {
	r           *Region
	cfg         RegionConfig
	key         uint32
	bytes       []byte // what cfg.Buf should hold
	invalidated bool
	windows     int // bound to it
}

// find returns the region of a key.
func (m *model) find(key uint32) *modelRegion {
	for _, r := range m.live {
		if r.key == key {
			return r
		}
	}
	return nil
}

// check returns the expected result of an access to n > 0 bytes, and the offset of
// the first one in the buffer.
func (r *modelRegion) check(pd PD, addr, n uint64, need ib.Access) (Fault, int) {
	switch {
	case r == nil:
		return FaultKey, 0
	case r.invalidated:
		return FaultInvalidated, 0
	case r.cfg.PD != pd:
		return FaultPD, 0
	case r.cfg.Access&need != need:
		return FaultAccess, 0
	case r.cfg.Form == FormNull && n > 4096:
		return FaultRange, 0
	case r.cfg.Form == FormNull:
		return FaultNone, 0
	}
	first, start := new(big.Int).SetUint64(addr), new(big.Int).SetUint64(r.r.Addr())
	end := new(big.Int).Add(first, new(big.Int).SetUint64(n))
	limit := new(big.Int).Add(start, big.NewInt(int64(len(r.bytes))))
	if r.cfg.Form == FormImplicit {
		start, limit = big.NewInt(4096), big.NewInt(1<<48)
	}
	if first.Cmp(start) < 0 || end.Cmp(limit) > 0 {
		return FaultRange, 0
	}
	return FaultNone, int(first.Sub(first, start).Int64())
}

// remote is find for remote keys.
func (m *model) remote(key uint32) *modelRegion {
	if r := m.find(key); r != nil && r.cfg.Access&ib.AccessRemote != 0 {
		return r
	}
	return nil
}

// walk does what Gather and Scatter must do: it calls visit for the bytes of
// each element that belong to the span, in order, until a fault.
func (m *model) walk(pd PD, list []ib.SGE, s span, visit func(part []byte)) Fault {
	off, n := s.off, s.n
	for _, e := range list {
		skip := min(off, uint64(e.Length))
		take := min(n, uint64(e.Length)-skip)
		if off -= skip; take == 0 {
			continue
		}
		addr := new(big.Int).Add(new(big.Int).SetUint64(e.Addr), new(big.Int).SetUint64(skip))
		if !addr.IsUint64() {
			return FaultRange
		}
		r := m.find(uint32(e.LKey))
		f, at := r.check(pd, addr.Uint64(), take, s.need)
		switch {
		case f != FaultNone:
			return f
		case r.cfg.Form == FormImplicit:
			return FaultMissing // the model draws no address that is mapped
		case r.cfg.Form == FormNull:
			visit(make([]byte, take))
		default:
			visit(r.bytes[at : at+int(take)])
		}
		n -= take
	}
	if n > 0 {
		return FaultRange
	}
	return FaultNone
}

// Hostile and ordinary values.
func drawAddr(t *rapid.T) uint64 {
	near := rapid.SampledFrom([]uint64{0, 1 << 12, 1 << 32, 1 << 63, 0}).Draw(t, "near")
	return near + uint64(rapid.IntRange(-70, 70).Draw(t, "by"))
}

func drawLen(t *rapid.T) uint64 {
	if rapid.IntRange(0, 9).Draw(t, "huge") == 0 {
		return -uint64(rapid.IntRange(1, 200).Draw(t, "back"))
	}
	return uint64(rapid.IntRange(0, 70).Draw(t, "n"))
}

func drawAccess(t *rapid.T) ib.Access {
	return ib.Access(rapid.IntRange(0, 15).Draw(t, "access"))
}

// drawConfig returns a configuration, of a buffer in most cases.
func drawConfig(t *rapid.T) RegionConfig {
	c := RegionConfig{
		PD: drawPD(t), HasIOVA: true, Access: drawRegionAccess(t),
		Form: rapid.SampledFrom([]Form{FormBuf, FormBuf, FormBuf, FormBuf, FormBuf, FormImplicit, FormNull}).Draw(t, "form"),
	}
	switch rapid.IntRange(0, 9).Draw(t, "flags") {
	case 0, 1:
		c.Access |= ib.AccessZeroBased
	case 2, 3, 4, 5:
		c.Access |= ib.AccessOnDemand
	}
	if c.Form == FormBuf {
		c.Buf = drawBuf(t)
	}
	if c.Form == FormBuf && c.Access&ib.AccessZeroBased == 0 || rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		c.IOVA = drawAddr(t)
	}
	return c
}

// drawRegionAccess returns the rights of a region, mostly with MW_BIND.
func drawRegionAccess(t *rapid.T) ib.Access {
	a := drawAccess(t)
	if rapid.IntRange(0, 4).Draw(t, "windows") != 0 {
		a |= ib.AccessMWBind
	}
	return a
}

func drawPD(t *rapid.T) PD { return PD(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "pd")) }

// drawKey returns mostly good keys, else dead, near or arbitrary ones.
func (m *model) drawKey(t *rapid.T) uint32 {
	switch k := rapid.IntRange(0, 19).Draw(t, "key"); {
	case k == 0 && len(m.dead) > 0:
		return rapid.SampledFrom(m.dead).Draw(t, "dead")
	case k == 1:
		return rapid.Uint32().Draw(t, "any")
	case len(m.live) == 0:
		return 0
	case k == 2:
		return m.drawLive(t).key ^ 1<<rapid.IntRange(0, 31).Draw(t, "bit")
	}
	return m.drawLive(t).key
}

func (m *model) drawLive(t *rapid.T) *modelRegion {
	if len(m.live) == 0 {
		t.Skip("no region") // rapid picks another action
	}
	return rapid.SampledFrom(m.live).Draw(t, "region")
}

// drawInside returns an address, mostly near the ends of the key's region.
func (m *model) drawInside(t *rapid.T, key uint32) uint64 {
	r := m.find(key)
	if r == nil || rapid.IntRange(0, 9).Draw(t, "wild") == 0 {
		return drawAddr(t)
	}
	return r.r.Addr() + uint64(rapid.IntRange(-2, len(r.bytes)+2).Draw(t, "offset"))
}

func (m *model) drawList(t *rapid.T) []ib.SGE {
	list := make([]ib.SGE, rapid.IntRange(0, 4).Draw(t, "elements"))
	for i := range list {
		key := m.drawKey(t)
		list[i] = ib.SGE{Addr: m.drawInside(t, key), Length: uint32(rapid.IntRange(0, 40).Draw(t, "length")), LKey: ib.LKey(key)}
		if rapid.IntRange(0, 19).Draw(t, "long") == 0 {
			list[i].Length = ^uint32(0)
		}
	}
	return list
}

func drawBuf(t *rapid.T) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "bytes")
}

// good reports whether a configuration may be registered.
func good(c RegionConfig) bool {
	writes := c.Access&(ib.AccessRemoteWrite|ib.AccessRemoteAtomic) != 0
	zero := c.Access&ib.AccessZeroBased != 0
	end := new(big.Int).Add(new(big.Int).SetUint64(c.IOVA), big.NewInt(int64(len(c.Buf))))
	switch {
	case writes && c.Access&ib.AccessLocalWrite == 0, zero && c.IOVA != 0:
		return false
	case c.Form == FormImplicit:
		return c.Access&ib.AccessOnDemand != 0 && c.IOVA == 0 && !zero
	case c.Form == FormNull:
		return c.Access&^ib.AccessLocalWrite == 0 && c.IOVA == 0
	}
	return end.Cmp(new(big.Int).Lsh(big.NewInt(1), 64)) <= 0
}

func (m *model) register(t *rapid.T) {
	c := drawConfig(t)
	c.Invalidatable = rapid.Bool().Draw(t, "invalidatable")
	r, err := m.tab.Register(c)
	if want := good(c) && len(m.live) < m.tab.max.Regions; (err == nil) != want {
		t.Fatalf("register %+v: %v", c, err)
	}
	if err != nil {
		return
	}
	key := uint32(r.LKey())
	m.fresh(t, key)
	m.live = append(m.live, &modelRegion{r: r, cfg: c, key: key, bytes: bytes.Clone(c.Buf)})
}

func (m *model) deregister(t *rapid.T) {
	r := m.drawLive(t)
	if r.windows != 0 {
		must.Fail(t, m.tab.Deregister(r.r), ib.EINVAL, "deregister a region with windows")
		return
	}
	must.Do(t, m.tab.Deregister(r.r))
	m.dead = append(m.dead, r.key)
	for i := range m.live {
		if m.live[i] == r {
			m.live = append(m.live[:i], m.live[i+1:]...)
			return
		}
	}
}

func (m *model) reregister(t *rapid.T) {
	r := m.drawLive(t)
	what := Change(rapid.IntRange(1, 7).Draw(t, "change"))
	given, want := drawConfig(t), r.cfg
	if what&ChangePD != 0 {
		want.PD = given.PD
	}
	if what&ChangeAccess != 0 {
		want.Access = given.Access
	}
	if what&ChangeTranslation != 0 {
		want.Form, want.Buf, want.IOVA = given.Form, given.Buf, given.IOVA
	}
	err := m.tab.Reregister(r.r, what, given)
	legal := r.windows == 0 && r.cfg.Form != FormNull && want.Form != FormNull // a null region is for ever
	if what&ChangeTranslation == 0 {
		legal = legal && !r.invalidated && (r.cfg.Access^want.Access)&ib.AccessZeroBased == 0
	}
	if (err == nil) != (good(want) && legal) {
		t.Fatalf("reregister %+v: %v", want, err)
	}
	if err != nil {
		return
	}
	r.cfg = want
	if what&ChangeTranslation != 0 {
		if uint32(r.r.LKey())>>8 == r.key>>8 {
			t.Fatalf("new memory under the old key %#x", r.key)
		}
		m.dead = append(m.dead, r.key)
		r.key, r.bytes, r.invalidated = uint32(r.r.LKey()), bytes.Clone(want.Buf), false
	}
}

func (m *model) invalidate(t *rapid.T) {
	key, pd := m.drawKey(t), drawPD(t)
	r := m.remote(key)
	want := FaultNone
	switch {
	case r == nil:
		want = FaultKey
	case r.invalidated:
		want = FaultInvalidated
	case r.cfg.PD != pd:
		want = FaultPD
	case !r.cfg.Invalidatable:
		want = FaultAccess
	case r.windows != 0:
		want = FaultBound
	}
	if f := m.tab.Invalidate(Via{PD: pd}, ib.RKey(key)); f != want {
		t.Fatalf("invalidate %#x: got %v, want %v", key, f, want)
	}
	if want == FaultNone {
		r.invalidated = true
	}
}

// one tries a single access, local or remote.
func (m *model) one(t *rapid.T) {
	key, pd, n, need := m.drawKey(t), drawPD(t), drawLen(t), drawAccess(t)
	addr := m.drawInside(t, key)
	remote := rapid.Bool().Draw(t, "remote")
	r := m.find(key)
	if remote {
		r = m.remote(key)
	}
	want, at := FaultNone, 0
	if n > 0 {
		want, at = r.check(pd, addr, n, need)
	}
	var b []byte
	var f Fault
	if remote {
		b, f = m.tab.Remote(Via{PD: pd}, ib.RKey(key), addr, n, need)
	} else {
		b, f = m.tab.Local(pd, ib.LKey(key), addr, n, need)
	}
	if f != want || f != FaultNone && b != nil {
		t.Fatalf("access to %d bytes at %#x with key %#x: got %v, want %v", n, addr, key, f, want)
	}
	if f == FaultNone && n > 0 && (uint64(len(b)) != n || r.cfg.Form == FormBuf && &b[0] != &r.cfg.Buf[at]) {
		t.Fatalf("the view of %d bytes at %#x is of other bytes", n, addr)
	}
}

func (m *model) gather(t *rapid.T) {
	pd, list := drawPD(t), m.drawList(t)
	off, n := drawLen(t), rapid.IntRange(0, 90).Draw(t, "size")
	var want []byte
	fault := m.walk(pd, list, span{off, uint64(n), 0}, func(part []byte) { want = append(want, part...) })
	got := make([]byte, n)
	if f := m.tab.Gather(got, pd, list, off); f != fault {
		t.Fatalf("gather %d bytes at %d of %v: got %v, want %v", n, off, list, f, fault)
	}
	if fault == FaultNone && !bytes.Equal(got, want) {
		t.Fatalf("gathered %x, want %x", got, want)
	}
}

func (m *model) scatter(t *rapid.T) {
	pd, list := drawPD(t), m.drawList(t)
	off, src := drawLen(t), rapid.SliceOfN(rapid.Byte(), 0, 90).Draw(t, "data")
	rest := src
	fault := m.walk(pd, list, span{off, uint64(len(src)), ib.AccessLocalWrite}, func(part []byte) {
		rest = rest[copy(part, rest):]
	})
	if f := m.tab.Scatter(src, pd, list, off); f != fault {
		t.Fatalf("scatter %d bytes at %d of %v: got %v, want %v", len(src), off, list, f, fault)
	}
}

// same checks after every action that all regions equal the model's, and that
// no other byte was written.
func (m *model) same(t *rapid.T) {
	if m.tab.Len() != len(m.live) {
		t.Fatalf("%d regions, want %d", m.tab.Len(), len(m.live))
	}
	m.sameWindows(t)
	for _, r := range m.live {
		if !bytes.Equal(r.cfg.Buf, r.bytes) {
			t.Fatalf("region %#x holds %x, want %x", r.key, r.cfg.Buf, r.bytes)
		}
		if uint32(r.r.LKey()) != r.key || r.r.PD() != r.cfg.PD || r.r.Access() != r.cfg.Access || r.r.Addr() != r.cfg.IOVA || r.r.Form() != r.cfg.Form {
			t.Fatalf("region %#x is %+v", r.key, r.r)
		}
	}
}

// TestE14_M3_Model compares the table with the model under random use with
// hostile addresses, lengths and keys.
func TestE14_M3_Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		// 512 indices: draws collide often, and the hash table has long runs.
		m := &model{tab: NewTable(func() uint32 { return rng.Uint32() & 0x1ffff }, Limits{12, 12})}
		t.Repeat(map[string]func(*rapid.T){
			"register":   m.register,
			"deregister": m.deregister,
			"reregister": m.reregister,
			"invalidate": m.invalidate,
			"alloc":      m.alloc,
			"dealloc":    m.dealloc,
			"bind":       m.bind,
			"unbind":     m.unbind,
			"through":    m.through,
			"leave":      m.leave,
			"one":        m.one,
			"gather":     m.gather,
			"scatter":    m.scatter,
			"":           m.same,
		})
	})
}
