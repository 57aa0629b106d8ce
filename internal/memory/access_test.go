package memory

import (
	"bytes"
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

const (
	wrong = ^uint64(0) // an address that ends every range
	base  = 0x1000
)

// newTable returns a table with a region of 64 bytes at base in domain 1.
func newTable(t testing.TB, access ib.Access) (*Table, *Region) {
	t.Helper()
	tab := NewTable(seeded(), Limits{1 << 16, 1 << 16})
	buf := make([]byte, 64)
	for i := range buf {
		buf[i] = byte(i)
	}
	return tab, register(t, tab, RegionConfig{PD: 1, Buf: buf, IOVA: base, Access: access})
}

// TestE13_ZeroLength: a READ or WRITE of nothing looks at neither key nor
// address, and elements without bytes are skipped.
func TestE13_ZeroLength(t *testing.T) {
	tab, r := newTable(t, ib.AccessLocalWrite)
	for _, key := range []ib.RKey{0, 0xdeadbeef, ib.RKey(r.LKey())} {
		for _, need := range []ib.Access{ib.AccessRemoteRead, ib.AccessRemoteWrite} {
			if b, f := tab.Remote(Via{PD: 99}, key, wrong, 0, need); f != FaultNone || len(b) != 0 {
				t.Errorf("zero-length %v with key %#x: %v", need, key, f)
			}
		}
	}
	if b, f := tab.Local(99, 0xdeadbeef, wrong, 0, ib.AccessLocalWrite); f != FaultNone || len(b) != 0 {
		t.Errorf("zero-length local write: %v", f)
	}
	bad := ib.SGE{Addr: wrong, LKey: 0xdeadbeef}
	list := []ib.SGE{bad, {Addr: base, Length: 4, LKey: r.LKey()}, bad, {Addr: base + 8, Length: 4, LKey: r.LKey()}, bad}
	got := make([]byte, 8)
	if f := tab.Gather(got, 1, list, 0); f != FaultNone || !bytes.Equal(got, []byte{0, 1, 2, 3, 8, 9, 10, 11}) {
		t.Errorf("gather over elements without bytes: %v, %v", got, f)
	}
	if f := tab.Scatter(got, 1, list, 0); f != FaultNone {
		t.Errorf("scatter over elements without bytes: %v", f)
	}
	for _, off := range []uint64{0, 8, 9, wrong} {
		if g, s := tab.Gather(nil, 1, list, off), tab.Scatter(nil, 1, nil, off); g != FaultNone || s != FaultNone {
			t.Errorf("nothing at offset %d: %v, %v", off, g, s)
		}
	}
}

// TestE14_RemoteFaults: each way in which a remote access can be wrong, and
// the last byte that is right.
func TestE14_RemoteFaults(t *testing.T) {
	tab, r := newTable(t, ib.AccessLocalWrite|ib.AccessRemoteRead)
	local := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 8), IOVA: base, Access: ib.AccessLocalWrite})
	const read = ib.AccessRemoteRead
	for _, c := range []struct {
		name    string
		pd      PD
		key     ib.RKey
		addr, n uint64
		need    ib.Access
		want    Fault
	}{
		{"all", 1, r.RKey(), base, 64, read, FaultNone},
		{"last byte", 1, r.RKey(), base + 63, 1, read, FaultNone},
		{"no such index", 1, r.RKey() ^ 0x100, base, 1, read, FaultKey},
		{"other low byte", 1, r.RKey() ^ 0x80, base, 1, read, FaultKey},
		{"key 0", 1, 0, base, 1, read, FaultKey},
		{"lkey of a local region", 1, ib.RKey(local.LKey()), base, 1, read, FaultKey},
		{"other domain", 2, r.RKey(), base, 1, read, FaultPD},
		{"no domain", 0, r.RKey(), base, 1, read, FaultPD},
		{"write", 1, r.RKey(), base, 1, ib.AccessRemoteWrite, FaultAccess},
		{"atomic", 1, r.RKey(), base, 8, ib.AccessRemoteAtomic, FaultAccess},
		{"read and write", 1, r.RKey(), base, 1, read | ib.AccessRemoteWrite, FaultAccess},
		{"one byte before", 1, r.RKey(), base - 1, 1, read, FaultRange},
		{"from before into", 1, r.RKey(), base - 1, 2, read, FaultRange},
		{"one byte behind", 1, r.RKey(), base + 64, 1, read, FaultRange},
		{"one byte too many", 1, r.RKey(), base, 65, read, FaultRange},
		{"out at the end", 1, r.RKey(), base + 63, 2, read, FaultRange},
		{"length that wraps", 1, r.RKey(), base + 1, ^uint64(0), read, FaultRange},
		{"length that wraps to the start", 1, r.RKey(), base + 32, ^uint64(31), read, FaultRange},
		{"last address", 1, r.RKey(), ^uint64(0), 1, read, FaultRange},
		{"last address and more", 1, r.RKey(), ^uint64(0), base + 2, read, FaultRange},
		{"address 0", 1, r.RKey(), 0, 1, read, FaultRange},
		{"everything", 1, r.RKey(), 0, ^uint64(0), read, FaultRange},
	} {
		b, f := tab.Remote(Via{PD: c.pd}, c.key, c.addr, c.n, c.need)
		if f != c.want || f != FaultNone && b != nil || f == FaultNone && (uint64(len(b)) != c.n || b[0] != byte(c.addr-base)) {
			t.Errorf("%s: got %d bytes and %v, want %v", c.name, len(b), f, c.want)
		}
	}
}

// TestE14_RegionAtTheEnd: a region that ends with the last address there is.
func TestE14_RegionAtTheEnd(t *testing.T) {
	tab := NewTable(seeded(), Limits{1, 1})
	start := ^uint64(0) - 15
	r := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 16), IOVA: start, Access: ib.AccessRemoteRead})
	for _, c := range []struct {
		addr, n uint64
		want    Fault
	}{
		{start, 16, FaultNone}, {^uint64(0), 1, FaultNone}, {start, 17, FaultRange},
		{^uint64(0), 2, FaultRange}, {0, 1, FaultRange}, {start - 1, 1, FaultRange}, {0, 16, FaultRange},
	} {
		if _, f := tab.Remote(Via{PD: 1}, r.RKey(), c.addr, c.n, ib.AccessRemoteRead); f != c.want {
			t.Errorf("%d bytes at %#x: got %v, want %v", c.n, c.addr, f, c.want)
		}
	}
}

// TestE14_ViewEnds: a view cannot be grown into the bytes behind it.
func TestE14_ViewEnds(t *testing.T) {
	tab, r := newTable(t, allRights)
	b, f := tab.Remote(Via{PD: 1}, r.RKey(), base+8, 4, ib.AccessRemoteWrite)
	if f != FaultNone || len(b) != 4 || cap(b) != 4 || &b[0] != &r.buf[8] {
		t.Errorf("view of %d bytes with room for %d: %v", len(b), cap(b), f)
	}
}

// TestE3_GatherFaults: what stops a requester from reading its own memory.
func TestE3_GatherFaults(t *testing.T) {
	tab, r := newTable(t, 0)
	good := ib.SGE{Addr: base, Length: 16, LKey: r.LKey()}
	for _, c := range []struct {
		name string
		pd   PD
		bad  ib.SGE
		want Fault
	}{
		{"key", 1, ib.SGE{Addr: base, Length: 1, LKey: r.LKey() ^ 1}, FaultKey},
		{"key 0", 1, ib.SGE{Addr: base, Length: 1}, FaultKey},
		{"range", 1, ib.SGE{Addr: base + 64, Length: 1, LKey: r.LKey()}, FaultRange},
		{"wrapping", 1, ib.SGE{Addr: ^uint64(0), Length: 2, LKey: r.LKey()}, FaultRange},
	} {
		if f := tab.Gather(make([]byte, 17), c.pd, []ib.SGE{good, c.bad}, 0); f != c.want {
			t.Errorf("%s: got %v, want %v", c.name, f, c.want)
		}
		if f := tab.Gather(make([]byte, 16), c.pd, []ib.SGE{good, c.bad}, 0); f != FaultNone {
			t.Errorf("%s in an element that is not reached: %v", c.name, f)
		}
	}
	if f := tab.Gather(make([]byte, 1), 2, []ib.SGE{good}, 0); f != FaultPD {
		t.Errorf("other domain: %v", f)
	}
	if f := tab.Gather(make([]byte, 17), 1, []ib.SGE{good}, 0); f != FaultRange {
		t.Errorf("beyond the list: %v", f)
	}
	if f := tab.Gather(make([]byte, 1), 1, []ib.SGE{good}, 16); f != FaultRange {
		t.Errorf("behind the list: %v", f)
	}
	// The offset takes the address over 2^64 and around to the region.
	around := ib.SGE{Addr: ^uint64(0) - 15, Length: base + 64, LKey: r.LKey()}
	if f := tab.Gather(make([]byte, 1), 1, []ib.SGE{around}, base+32); f != FaultRange {
		t.Errorf("offset that wraps the address: %v", f)
	}
}

// TestE28_ScatterFaults: what stops a response from being stored. Nothing is
// written where it is not allowed.
func TestE28_ScatterFaults(t *testing.T) {
	tab, ro := newTable(t, ib.AccessRemoteRead)
	rw := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 8), IOVA: base, Access: ib.AccessLocalWrite})
	before := bytes.Clone(ro.buf)
	ones := bytes.Repeat([]byte{0xff}, 12)
	for _, c := range []struct {
		name string
		list []ib.SGE
		want Fault
	}{
		{"read only", []ib.SGE{{Addr: base, Length: 12, LKey: ro.LKey()}}, FaultAccess},
		{"bad key", []ib.SGE{{Addr: base, Length: 12, LKey: 77}}, FaultKey},
		{"too long for the region", []ib.SGE{{Addr: base, Length: 12, LKey: rw.LKey()}}, FaultRange},
		{"too long for the list", []ib.SGE{{Addr: base, Length: 8, LKey: rw.LKey()}}, FaultRange},
		{"second read only", []ib.SGE{{Addr: base, Length: 8, LKey: rw.LKey()}, {Addr: base, Length: 8, LKey: ro.LKey()}}, FaultAccess},
		{"no list", nil, FaultRange},
	} {
		if f := tab.Scatter(ones, 1, c.list, 0); f != c.want {
			t.Errorf("%s: got %v, want %v", c.name, f, c.want)
		}
		if !bytes.Equal(ro.buf, before) {
			t.Fatalf("%s: a read-only region was written", c.name)
		}
	}
	list := []ib.SGE{{Addr: base, Length: 4, LKey: rw.LKey()}, {Addr: base + 6, Length: 2, LKey: rw.LKey()}}
	clear(rw.buf)
	if f := tab.Scatter([]byte{1, 2, 3}, 1, list, 3); f != FaultNone || !bytes.Equal(rw.buf, []byte{0, 0, 0, 1, 0, 0, 2, 3}) {
		t.Errorf("across elements: %v, %v", rw.buf, f)
	}
}

// TestInvalidate: only what allows it, and then nothing works any more
// until there is a new translation.
func TestInvalidate(t *testing.T) {
	tab, fixed := newTable(t, allRights)
	cfg := RegionConfig{PD: 1, Buf: make([]byte, 8), IOVA: base, Access: allRights, Invalidatable: true}
	r := register(t, tab, cfg)
	local := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 8), Invalidatable: true})
	for _, c := range []struct {
		name string
		pd   PD
		key  ib.RKey
		want Fault
	}{
		{"ordinary region", 1, fixed.RKey(), FaultAccess},
		{"other domain", 2, r.RKey(), FaultPD},
		{"no such key", 1, r.RKey() ^ 1, FaultKey},
		{"lkey of a local region", 1, ib.RKey(local.LKey()), FaultKey},
		{"right", 1, r.RKey(), FaultNone},
		{"again", 1, r.RKey(), FaultInvalidated},
	} {
		if f := tab.Invalidate(Via{PD: c.pd}, c.key); f != c.want {
			t.Errorf("%s: got %v, want %v", c.name, f, c.want)
		}
		if _, f := tab.Local(1, fixed.LKey(), base, 1, 0); f != FaultNone {
			t.Errorf("%s: the ordinary region is gone: %v", c.name, f)
		}
	}
	if _, f := tab.Local(1, r.LKey(), base, 1, 0); f != FaultInvalidated || !r.Invalidated() {
		t.Errorf("local use: %v", f)
	}
	if _, f := tab.Remote(Via{PD: 1}, r.RKey(), base, 1, ib.AccessRemoteRead); f != FaultInvalidated {
		t.Errorf("remote use: %v", f)
	}
	if err := tab.Reregister(r, ChangeAccess, cfg); err == nil {
		t.Error("new rights revived an invalidated region")
	}
	if err := tab.Reregister(r, ChangeTranslation, cfg); err != nil || r.Invalidated() {
		t.Fatal(err)
	}
	if _, f := tab.Remote(Via{PD: 1}, r.RKey(), base, 1, ib.AccessRemoteRead); f != FaultNone {
		t.Errorf("after a new translation: %v", f)
	}
	must.Do(t, tab.Deregister(r))
}

func TestTotalLength(t *testing.T) {
	long := ib.SGE{Length: ^uint32(0)}
	if n := TotalLength([]ib.SGE{long, {}, long, {Length: 3}}); n != 2*uint64(^uint32(0))+3 {
		t.Errorf("total length %d", n)
	}
	if n := TotalLength(nil); n != 0 {
		t.Errorf("length %d of no list", n)
	}
}

func TestE14_FaultNames(t *testing.T) {
	seen := map[string]bool{}
	for f := FaultNone; f <= FaultRange+1; f++ {
		if s := f.String(); s == "" || seen[s] {
			t.Errorf("fault %d is called %q", f, s)
		}
		seen[f.String()] = true
	}
}

// work is one use of each function of the data path.
func work(t testing.TB, tab *Table, r *Region, list []ib.SGE, buf []byte) {
	_, f1 := tab.Local(1, r.LKey(), base, 8, ib.AccessLocalWrite)
	b, f2 := tab.Remote(Via{PD: 1}, r.RKey(), base, 8, ib.AccessRemoteAtomic)
	f3, f4 := tab.Gather(buf, 1, list, 1), tab.Scatter(buf, 1, list, 1)
	_, f5 := tab.Remote(Via{PD: 1}, r.RKey()^1, base, 8, ib.AccessRemoteRead)
	if f1|f2|f3|f4 != FaultNone || f5 != FaultKey {
		t.Fatal("faults:", f1, f2, f3, f4, f5)
	}
	FetchAdd(b, 1)
	CompareSwap(b, 0, 1)
}

// TestNoAllocation: the data path allocates nothing.
func TestNoAllocation(t *testing.T) {
	tab, r := newTable(t, allRights)
	list := []ib.SGE{{Addr: base, Length: 16, LKey: r.LKey()}, {Addr: base + 32, Length: 16, LKey: r.LKey()}}
	buf := make([]byte, 24)
	if n := testing.AllocsPerRun(1000, func() { work(t, tab, r, list, buf) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkLookup is one check, with few regions and with many.
func BenchmarkLookup(b *testing.B) {
	for _, c := range []struct {
		name    string
		regions int
	}{{"1 region", 1}, {"10000 regions", 10000}} {
		b.Run(c.name, func(b *testing.B) {
			tab := NewTable(seeded(), Limits{c.regions, c.regions})
			keys := make([]ib.RKey, 1024)
			for i := range c.regions {
				r := register(b, tab, RegionConfig{PD: 1, Buf: make([]byte, 64), IOVA: base, Access: allRights})
				if i < len(keys) {
					keys[i] = r.RKey()
				}
			}
			keys = keys[:min(c.regions, len(keys))]
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, f := tab.Remote(Via{PD: 1}, keys[i], base, 64, ib.AccessRemoteWrite); f != FaultNone {
					b.Fatal(f)
				}
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
}

// BenchmarkGather is one packet's payload from a list of two elements.
func BenchmarkGather(b *testing.B) {
	for _, n := range []uint32{64, 4096} {
		b.Run(map[uint32]string{64: "64 B", 4096: "4096 B"}[n], func(b *testing.B) {
			tab := NewTable(seeded(), Limits{1, 1})
			r := register(b, tab, RegionConfig{PD: 1, Buf: make([]byte, 2*n), IOVA: base, Access: allRights})
			list := []ib.SGE{{Addr: base, Length: n, LKey: r.LKey()}, {Addr: base + uint64(n), Length: n, LKey: r.LKey()}}
			dst := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if f := tab.Gather(dst, 1, list, uint64(n/2)); f != FaultNone {
					b.Fatal(f)
				}
			}
		})
	}
}

// TestM6_RemoteRegion: a FLUSH of a region takes all of it, and needs the key, the domain and
// the rights, of which each gives a region an RKey.
func TestM6_RemoteRegion(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	buf := make([]byte, 100)
	global := register(t, tab, RegionConfig{PD: 1, Buf: buf, Access: ib.AccessFlushGlobal})
	both := register(t, tab, RegionConfig{PD: 1, Buf: buf, Access: ib.AccessFlush, Durable: true, Invalidatable: true})
	empty := register(t, tab, RegionConfig{PD: 1, Access: ib.AccessFlushGlobal})
	for _, c := range []struct {
		name string
		pd   PD
		key  ib.RKey
		need ib.Access
		n    int
		want Fault
	}{
		{"global", 1, global.RKey(), ib.AccessFlushGlobal, 100, FaultNone},
		{"both", 1, both.RKey(), ib.AccessFlush, 100, FaultNone},
		{"no bytes", 1, empty.RKey(), ib.AccessFlushGlobal, 0, FaultNone},
		{"persistence of a global one", 1, global.RKey(), ib.AccessFlushPersistent, 0, FaultAccess},
		{"another domain", 2, global.RKey(), ib.AccessFlushGlobal, 0, FaultPD},
		{"no key", 1, 0, ib.AccessFlushGlobal, 0, FaultKey},
	} {
		if b, f := tab.RemoteRegion(Via{PD: c.pd}, c.key, c.need); f != c.want || len(b) != c.n {
			t.Errorf("%s: %d bytes and %v, want %d and %v", c.name, len(b), f, c.n, c.want)
		}
	}
	if f := tab.Invalidate(Via{PD: 1}, both.RKey()); f != FaultNone {
		t.Fatal(f)
	}
	if _, f := tab.RemoteRegion(Via{PD: 1}, both.RKey(), ib.AccessFlushGlobal); f != FaultInvalidated {
		t.Errorf("an invalidated region gives %v", f)
	}
}

// TestM6_Durable: memory stays durable as long as its translation does, and no longer.
func TestM6_Durable(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1, Buf: make([]byte, 8), Durable: true})
	if err := tab.Reregister(r, ChangeAccess, RegionConfig{Access: ib.AccessFlushPersistent}); err != nil {
		t.Errorf("persistence of durable memory: %v", err)
	}
	if err := tab.Reregister(r, ChangeTranslation, RegionConfig{Buf: make([]byte, 8)}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("persistence of memory that is lost: %v", err)
	}
	if err := tab.Reregister(r, ChangeTranslation|ChangeAccess, RegionConfig{Buf: make([]byte, 8)}); err != nil {
		t.Fatal(err)
	}
	if err := tab.Reregister(r, ChangeAccess, RegionConfig{Access: ib.AccessFlushPersistent}); !errors.Is(err, ib.EINVAL) {
		t.Errorf("persistence of lost memory without a new translation: %v", err)
	}
	if err := tab.Reregister(r, ChangeAccess, RegionConfig{Access: ib.AccessFlushPersistent, Durable: true}); err != nil {
		t.Errorf("persistence of memory that turns out to be durable: %v", err)
	}
}
