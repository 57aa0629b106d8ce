package memory

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestM3_ImplicitRegion shows that a region of the whole address space gives
// access to each mapped byte by its own address, and that an access to any other
// address fails and changes nothing.
func TestM3_ImplicitRegion(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1, Form: FormImplicit, Access: allRights | ib.AccessOnDemand})
	if r.Addr() != 0 || r.Len() != math.MaxUint64 {
		t.Fatalf("the region has %d bytes at %#x, want all", r.Len(), r.Addr())
	}
	mem := bytes.Repeat([]byte{7}, 16)
	at := uint64(uintptr(unsafe.Pointer(&mem[0])))
	b, f := tab.Remote(Via{PD: 1}, r.RKey(), at+4, 8, ib.AccessRemoteWrite)
	if f != FaultNone || len(b) != 8 || &b[0] != &mem[4] {
		t.Errorf("remote access to 8 bytes: %v", f)
	}
	list := []ib.SGE{{Addr: at, Length: 16, LKey: r.LKey()}}
	if f := tab.Scatter([]byte{1, 2, 3}, 1, list, 5); f != FaultNone || !bytes.Equal(mem[4:9], []byte{7, 1, 2, 3, 7}) {
		t.Errorf("scatter into the address space: %v, %v", f, mem)
	}
	for _, addr := range []uint64{0, 1, 4095, 1 << 48, 1<<48 - 7, 1 << 63, math.MaxUint64, math.MaxUint64 - 7} {
		if _, f := tab.Remote(Via{PD: 1}, r.RKey(), addr, 8, ib.AccessRemoteRead); f != FaultRange {
			t.Errorf("access to 8 bytes at %#x: %v, want %v", addr, f, FaultRange)
		}
	}
	var got [8]byte
	// The last two are an address that amd64 processors refuse, and one in the kernel's half of theirs.
	for _, addr := range []uint64{4096, 1 << 32, 1<<47 + 64, 1<<48 - 8} {
		if f := tab.Gather(got[:], 1, []ib.SGE{{Addr: addr, Length: 8, LKey: r.LKey()}}, 0); f != FaultMissing {
			t.Errorf("gather from %#x: %v, want %v", addr, f, FaultMissing)
		}
	}
	must.Do(t, tab.Reregister(r, ChangeTranslation, RegionConfig{Buf: mem}))
	if _, f := tab.Local(1, r.LKey(), at+16, 1, 0); f != FaultRange {
		t.Errorf("a byte after the buffer that replaced the address space: %v", f)
	}
}

// TestM3_NullRegion shows that every address of a region without memory reads
// as zeros, also after writes, and that no peer can name the region.
func TestM3_NullRegion(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	r := register(t, tab, RegionConfig{PD: 1, Form: FormNull, Access: ib.AccessLocalWrite})
	data := bytes.Repeat([]byte{0xff}, 4096)
	for _, addr := range []uint64{0, 5, 1 << 40, math.MaxUint64 - 4095} {
		list := []ib.SGE{{Addr: addr, Length: 4096, LKey: r.LKey()}}
		if f := tab.Scatter(data, 1, list, 0); f != FaultNone {
			t.Errorf("scatter to %#x: %v", addr, f)
		}
		got := bytes.Clone(data)
		if f := tab.Gather(got, 1, list, 0); f != FaultNone || !bytes.Equal(got, make([]byte, 4096)) {
			t.Errorf("gather from %#x: %v, first bytes %x", addr, f, got[:4])
		}
	}
	if _, f := tab.Local(1, r.LKey(), 0, 4097, 0); f != FaultRange {
		t.Errorf("access to more than a packet: %v", f)
	}
	if _, f := tab.Local(2, r.LKey(), 0, 1, 0); f != FaultPD {
		t.Errorf("access from another domain: %v", f)
	}
	if _, f := tab.Remote(Via{PD: 1}, ib.RKey(r.LKey()), 0, 1, 0); f != FaultKey {
		t.Errorf("access by a peer: %v", f)
	}
	readOnly := register(t, tab, RegionConfig{PD: 1, Form: FormNull})
	if _, f := tab.Local(1, readOnly.LKey(), 0, 1, ib.AccessLocalWrite); f != FaultAccess {
		t.Errorf("write without LOCAL_WRITE: %v", f)
	}
	for _, what := range []Change{ChangePD, ChangeAccess, ChangeTranslation} {
		must.Fail(t, tab.Reregister(r, what, RegionConfig{PD: 2, Buf: data, Access: allRights}), ib.EINVAL, "reregister a null region")
	}
	plain := register(t, tab, RegionConfig{PD: 1, Buf: data})
	must.Fail(t, tab.Reregister(plain, ChangeTranslation, RegionConfig{Form: FormNull}), ib.EINVAL, "reregister as a null region")
}

// TestM3_AddressZero shows that a region can begin at address 0 without the
// right ZERO_BASED, and stays there when its rights change.
func TestM3_AddressZero(t *testing.T) {
	tab := NewTable(seeded(), Limits{8, 8})
	buf := make([]byte, 8)
	r := register(t, tab, RegionConfig{PD: 1, Buf: buf, HasIOVA: true})
	must.Do(t, tab.Reregister(r, ChangeAccess, RegionConfig{Access: allRights}))
	if b, f := tab.Remote(Via{PD: 1}, r.RKey(), 3, 5, ib.AccessRemoteWrite); f != FaultNone || &b[0] != &buf[3] {
		t.Errorf("access at address 3: %v", f)
	}
	must.Do(t, tab.Reregister(r, ChangeTranslation, RegionConfig{Buf: buf}))
	if r.Addr() != uint64(uintptr(unsafe.Pointer(&buf[0]))) {
		t.Errorf("the region without an address is at %#x, not at that of its memory", r.Addr())
	}
}
