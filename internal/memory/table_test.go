package memory

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// seeded returns a source of keys that repeats itself from run to run.
func seeded() func() uint32 { return rand.New(rand.NewPCG(1, 0)).Uint32 }

const allRights = ib.AccessLocalWrite | ib.AccessRemote

// register registers memory that must be good.
func register(t testing.TB, tab *Table, c RegionConfig) *Region {
	t.Helper()
	r, err := tab.Register(c)
	must.Do(t, err)
	return r
}

// TestRegister: what the caller gave is what the region says.
func TestRegister(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	buf := make([]byte, 100)
	home := uint64(uintptr(unsafe.Pointer(&buf[0])))
	for _, c := range []struct {
		name   string
		cfg    RegionConfig
		addr   uint64
		remote bool
	}{
		{"own address", RegionConfig{PD: 1, Buf: buf, Access: allRights}, home, true},
		{"given address", RegionConfig{PD: 1, Buf: buf, IOVA: 1 << 63, Access: ib.AccessRemoteRead}, 1 << 63, true},
		{"address 0", RegionConfig{PD: 1, Buf: buf, HasIOVA: true, Access: allRights}, 0, true},
		{"zero based", RegionConfig{PD: 1, Buf: buf, Access: ib.AccessZeroBased}, 0, false},
		{"local only", RegionConfig{PD: 7, Buf: buf, Access: ib.AccessLocalWrite | ib.AccessMWBind}, home, false},
		{"hints", RegionConfig{PD: 1, Buf: buf, Access: ib.AccessRelaxedOrdering | ib.AccessHugeTLB | ib.AccessOnDemand | 1<<29}, home, false},
		{"no bytes", RegionConfig{PD: 1, IOVA: 5, Access: allRights}, 5, true},
		{"up to the last address", RegionConfig{PD: 1, Buf: buf, IOVA: ^uint64(0) - 99}, ^uint64(0) - 99, false},
	} {
		r := register(t, tab, c.cfg)
		if r.Addr() != c.addr || r.Len() != uint64(len(c.cfg.Buf)) || r.PD() != c.cfg.PD || r.Access() != c.cfg.Access {
			t.Errorf("%s: region at %#x, %d bytes, PD %d, %v", c.name, r.Addr(), r.Len(), r.PD(), r.Access())
		}
		if r.LKey()>>8 == 0 {
			t.Errorf("%s: lkey %#x has index 0", c.name, r.LKey())
		}
		if want := ib.RKey(r.LKey()); c.remote && r.RKey() != want || !c.remote && r.RKey() != 0 {
			t.Errorf("%s: rkey %#x for lkey %#x", c.name, r.RKey(), r.LKey())
		}
	}
}

// TestRegisterErrors: each misuse has its error number and registers nothing.
func TestRegisterErrors(t *testing.T) {
	buf := make([]byte, 100)
	tab := NewTable(seeded(), Limits{8, 8})
	for _, c := range []struct {
		name string
		cfg  RegionConfig
		want error
	}{
		{"no PD", RegionConfig{Buf: buf}, ib.EINVAL},
		{"remote write alone", RegionConfig{PD: 1, Buf: buf, Access: ib.AccessRemoteWrite}, ib.EINVAL},
		{"remote atomic alone", RegionConfig{PD: 1, Buf: buf, Access: ib.AccessRemoteAtomic}, ib.EINVAL},
		{"unknown right", RegionConfig{PD: 1, Buf: buf, Access: 1 << 30}, ib.EOPNOTSUPP},
		{"persistence of memory that is lost", RegionConfig{PD: 1, Buf: buf, Access: ib.AccessFlushPersistent}, ib.EINVAL},
		{"address of zero-based", RegionConfig{PD: 1, Buf: buf, IOVA: 1, Access: ib.AccessZeroBased}, ib.EINVAL},
		{"wrapping", RegionConfig{PD: 1, Buf: buf, IOVA: ^uint64(0) - 98}, ib.EINVAL},
		{"implicit, pinned", RegionConfig{PD: 1, Form: FormImplicit, Access: ib.AccessLocalWrite}, ib.EINVAL},
		{"implicit, with a buffer", RegionConfig{PD: 1, Form: FormImplicit, Buf: buf, Access: ib.AccessOnDemand}, ib.EINVAL},
		{"implicit, elsewhere", RegionConfig{PD: 1, Form: FormImplicit, IOVA: 1, Access: ib.AccessOnDemand}, ib.EINVAL},
		{"implicit, zero based", RegionConfig{PD: 1, Form: FormImplicit, Access: ib.AccessOnDemand | ib.AccessZeroBased}, ib.EINVAL},
		{"null, with a buffer", RegionConfig{PD: 1, Form: FormNull, Buf: buf}, ib.EINVAL},
		{"null, for peers", RegionConfig{PD: 1, Form: FormNull, Access: ib.AccessRemoteRead}, ib.EINVAL},
	} {
		if r, err := tab.Register(c.cfg); !errors.Is(err, c.want) || r != nil {
			t.Errorf("%s: got %v, %v, want %v", c.name, r, err, c.want)
		}
	}
	if tab.Len() != 0 {
		t.Errorf("refused registrations left %d regions", tab.Len())
	}
}

// TestFull: the table holds as many regions as it was given room for.
func TestFull(t *testing.T) {
	tab := NewTable(seeded(), Limits{100, 100})
	var rs []*Region
	for range 100 {
		rs = append(rs, register(t, tab, RegionConfig{PD: 1, Buf: []byte{0}}))
	}
	if _, err := tab.Register(RegionConfig{PD: 1}); !errors.Is(err, ib.ENOMEM) {
		t.Errorf("region 101 of 100: %v", err)
	}
	if err := tab.Deregister(rs[50]); err != nil {
		t.Error(err)
	}
	register(t, tab, RegionConfig{PD: 1})
	if tab.Len() != 100 {
		t.Errorf("%d regions, want 100", tab.Len())
	}
	if huge := NewTable(seeded(), Limits{1 << 30, 1 << 30}); huge.max != (Limits{maxObjects, maxObjects}) {
		t.Errorf("a table for 2^30 regions and windows takes %d", huge.max)
	}
}

// TestStuckSource: a source that repeats itself makes registering fail; it
// neither hangs nor gives a key twice. Zero it never gives.
func TestStuckSource(t *testing.T) {
	tab := NewTable(func() uint32 { return 0xabcdef01 }, Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1})
	if _, err := tab.Register(RegionConfig{PD: 1}); !errors.Is(err, ib.ENOMEM) {
		t.Errorf("second region with the same key: %v", err)
	}
	err := tab.Reregister(r, ChangeTranslation|ChangePD|ChangeAccess, RegionConfig{PD: 2, Access: allRights, IOVA: 5})
	if !errors.Is(err, ib.ENOMEM) || r.LKey() != 0xabcdef01 || r.PD() != 1 || r.Access() != 0 || r.Addr() == 5 {
		t.Errorf("reregister without a free key: %v, left %+v", err, r)
	}
	zero := NewTable(func() uint32 { return 0xff }, Limits{8, 8})
	if _, err := zero.Register(RegionConfig{PD: 1}); !errors.Is(err, ib.ENOMEM) {
		t.Errorf("region with index 0: %v", err)
	}
}

// TestDeregister: only once, only in its table, and the key is dead.
func TestDeregister(t *testing.T) {
	tab, other := NewTable(seeded(), Limits{8, 8}), NewTable(seeded(), Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 8), Access: allRights})
	twin := register(t, other, RegionConfig{PD: 1, Buf: make([]byte, 8), Access: allRights})
	if r.LKey() != twin.LKey() {
		t.Fatal("the tables should have drawn the same key")
	}
	for _, bad := range []*Region{nil, twin, {}} {
		must.Fail(t, tab.Deregister(bad), ib.EINVAL, "deregister of a foreign region")
	}
	key := r.LKey()
	must.Do(t, tab.Deregister(r))
	must.Fail(t, tab.Deregister(r), ib.EINVAL, "second deregister")
	if _, f := tab.Local(1, key, r.Addr(), 1, 0); f != FaultKey {
		t.Errorf("access with a dead key: %v", f)
	}
	if _, f := tab.Remote(Via{PD: 1}, ib.RKey(key), r.Addr(), 1, ib.AccessRemoteRead); f != FaultKey {
		t.Errorf("remote access with a dead key: %v", f)
	}
}

// TestReregister: each change alone, what stays, and what each does to the
// keys.
func TestReregister(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	old, fresh := make([]byte, 100), make([]byte, 50)
	r := register(t, tab, RegionConfig{PD: 1, Buf: old, IOVA: 1000, Access: ib.AccessLocalWrite})
	key := r.LKey()
	must.Do(t, tab.Reregister(r, ChangeAccess, RegionConfig{Access: allRights, PD: 9, Buf: fresh}))
	if r.LKey() != key || r.RKey() != ib.RKey(key) || r.Access() != allRights || r.PD() != 1 || r.Len() != 100 {
		t.Errorf("after new rights: %+v", r)
	}
	must.Do(t, tab.Reregister(r, ChangePD, RegionConfig{PD: 2}))
	if r.LKey() != key || r.PD() != 2 || r.Access() != allRights || r.Addr() != 1000 {
		t.Errorf("after a new PD: %+v", r)
	}
	must.Do(t, tab.Reregister(r, ChangeTranslation, RegionConfig{Buf: fresh, IOVA: 7000}))
	if r.LKey() == key || r.Len() != 50 || r.Addr() != 7000 || r.PD() != 2 || r.Access() != allRights {
		t.Errorf("after a new translation: %+v", r)
	}
	if _, f := tab.Remote(Via{PD: 2}, ib.RKey(key), 7000, 1, ib.AccessRemoteRead); f != FaultKey {
		t.Errorf("the old key after a new translation: %v", f)
	}
	if b, f := tab.Remote(Via{PD: 2}, r.RKey(), 7049, 1, ib.AccessRemoteRead); f != FaultNone || &b[0] != &fresh[49] {
		t.Errorf("the new key after a new translation: %v", f)
	}
	if tab.Len() != 1 {
		t.Errorf("%d regions after reregistering one", tab.Len())
	}
}

// TestReregisterErrors: a refused change changes nothing.
func TestReregisterErrors(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 100), IOVA: 1000, Access: allRights})
	gone := register(t, tab, RegionConfig{PD: 1})
	must.Do(t, tab.Deregister(gone))
	before := *r
	all := ChangeTranslation | ChangePD | ChangeAccess
	for _, c := range []struct {
		name string
		r    *Region
		what Change
		cfg  RegionConfig
		want error
	}{
		{"nothing", r, 0, RegionConfig{}, ib.EINVAL},
		{"unknown change", r, 8 | ChangePD, RegionConfig{PD: 2}, ib.EOPNOTSUPP},
		{"no PD", r, all, RegionConfig{Access: allRights}, ib.EINVAL},
		{"rights", r, ChangeAccess, RegionConfig{Access: ib.AccessRemoteWrite}, ib.EINVAL},
		{"unknown rights", r, all, RegionConfig{PD: 2, Access: 1 << 31}, ib.EOPNOTSUPP},
		{"zero based alone", r, ChangeAccess, RegionConfig{Access: ib.AccessZeroBased}, ib.EINVAL},
		{"wrapping", r, all, RegionConfig{PD: 2, Buf: make([]byte, 2), IOVA: ^uint64(0)}, ib.EINVAL},
		{"gone", gone, ChangePD, RegionConfig{PD: 2}, ib.EINVAL},
		{"none", nil, ChangePD, RegionConfig{PD: 2}, ib.EINVAL},
	} {
		if err := tab.Reregister(c.r, c.what, c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if r.key != before.key || r.pd != before.pd || r.access != before.access || r.iova != before.iova ||
			&r.buf[0] != &before.buf[0] || len(r.buf) != len(before.buf) {
			t.Fatalf("%s: the refused change left %+v", c.name, r)
		}
	}
}

// TestRawBuf: memory by address is that memory, and ranges that cannot be
// are refused.
func TestRawBuf(t *testing.T) {
	buf := []byte{1, 2, 3, 4}
	addr := uintptr(unsafe.Pointer(&buf[0]))
	b, err := RawBuf(addr, 4)
	if err != nil || len(b) != 4 || &b[0] != &buf[0] {
		t.Errorf("got %v, %v", b, err)
	}
	for _, c := range []struct {
		addr uintptr
		n    uint64
		want error
	}{
		{addr, 0, nil}, {0, 0, nil}, {0, 1, ib.EINVAL}, {^uintptr(0), 2, ib.EINVAL},
		{addr, 1 << 63, ib.EINVAL}, {addr, ^uint64(0), ib.EINVAL}, {^uintptr(0) - 9, 11, ib.EINVAL},
	} {
		if b, err := RawBuf(c.addr, c.n); !errors.Is(err, c.want) || len(b) != 0 {
			t.Errorf("%d bytes at %#x: %d bytes, %v, want %v", c.n, c.addr, len(b), err, c.want)
		}
	}
}
