package memory

import (
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// TestWriteLog checks that accesses that write are logged, that others are not, and that a range
// that no write has touched counts as unchanged until the log has lost writes.
func TestWriteLog(t *testing.T) {
	const rights = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic
	log := new(WriteLog)
	tab := NewTable(seeded(), Limits{Regions: 1})
	tab.LogWrites(log)
	buf := make([]byte, 256)
	r, err := tab.Register(RegionConfig{PD: 1, Buf: buf, IOVA: 0x1000, HasIOVA: true, Access: rights})
	if err != nil {
		t.Fatal(err)
	}
	via := Via{PD: 1}
	for _, c := range []struct {
		name   string
		access func() Fault
		wrote  bool
	}{
		{"local read", func() Fault { _, f := tab.Local(1, r.LKey(), 0x1010, 16, 0); return f }, false},
		{"remote read", func() Fault { _, f := tab.Remote(via, r.RKey(), 0x1010, 16, ib.AccessRemoteRead); return f }, false},
		{"refused write", func() Fault {
			if _, f := tab.Local(2, r.LKey(), 0x1010, 16, ib.AccessLocalWrite); f != FaultPD {
				t.Errorf("fault %v", f)
			}
			return FaultNone
		}, false},
		{"receive", func() Fault {
			return tab.Scatter(make([]byte, 16), 1, []ib.SGE{{Addr: 0x1010, Length: 16, LKey: r.LKey()}}, 0)
		}, true},
		{"remote write", func() Fault { _, f := tab.Remote(via, r.RKey(), 0x1010, 16, ib.AccessRemoteWrite); return f }, true},
		{"remote atomic", func() Fault { _, f := tab.Remote(via, r.RKey(), 0x1018, 8, ib.AccessRemoteAtomic); return f }, true},
	} {
		n := log.Count()
		if f := c.access(); f != FaultNone {
			t.Fatalf("%s: %v", c.name, f)
		}
		if got := log.Wrote(n, buf[16:32]); got != c.wrote {
			t.Errorf("%s: written is %v, want %v", c.name, got, c.wrote)
		}
		for _, other := range [][]byte{buf[:16], buf[32:]} {
			if log.Wrote(n, other) {
				t.Errorf("%s: bytes next to the range count as written", c.name)
			}
		}
	}
	n := log.Count()
	for range WriteLogLen/2 + 1 {
		if log.Wrote(n, buf[32:]) {
			t.Fatalf("after %d writes the log has lost some", log.Count()-n)
		}
		_, _ = tab.Remote(via, r.RKey(), 0x1000, 8, ib.AccessRemoteWrite)
	}
	if !log.Wrote(n, buf[32:]) {
		t.Error("a log that has lost writes says that there was none")
	}
	if got := unsafe.Sizeof(WriteLog{}); got != 8+WriteLogLen*24 {
		t.Errorf("the log has %d bytes; the header in C has another layout", got)
	}
	allocs := testing.AllocsPerRun(100, func() { _, _ = tab.Remote(via, r.RKey(), 0x1000, 8, ib.AccessRemoteWrite) })
	if allocs != 0 {
		t.Errorf("%v allocations for each write", allocs)
	}
}
