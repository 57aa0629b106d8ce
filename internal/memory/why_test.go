package memory

import (
	"fmt"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// TestWhy checks the explanations of refused accesses: each names the key, and how far or which right
// is missing.
func TestWhy(t *testing.T) {
	const iova, size = 0x10000, 4096
	table := NewTable(seeded(), Limits{1 << 16, 1 << 16})
	r, err := table.Register(RegionConfig{PD: 1, Buf: make([]byte, size), IOVA: iova, Access: ib.AccessLocalWrite | ib.AccessRemoteRead})
	must.Do(t, err)
	local, err := table.Register(RegionConfig{PD: 1, Buf: make([]byte, size), IOVA: iova})
	must.Do(t, err)
	gone, err := table.Register(RegionConfig{PD: 1, Buf: make([]byte, size), IOVA: iova, Access: ib.AccessRemoteRead})
	must.Do(t, err)
	named, err := table.Register(RegionConfig{PD: 1, Buf: make([]byte, size), IOVA: iova, Access: ib.AccessRemoteRead, By: "init"})
	must.Do(t, err)
	must.Do(t, table.Reregister(named, ChangeAccess, RegionConfig{Access: ib.AccessRemoteRead}))
	again, err := table.Register(RegionConfig{PD: 1, Buf: make([]byte, size), IOVA: iova, Access: ib.AccessRemoteRead, By: "init"})
	must.Do(t, err)
	must.Do(t, table.Reregister(again, ChangeAccess, RegionConfig{Access: ib.AccessLocalWrite, By: "rights"}))
	must.Do(t, table.Reregister(again, ChangeTranslation, RegionConfig{Buf: make([]byte, size), IOVA: iova, By: "change"}))
	goneKey := gone.RKey()
	must.Do(t, table.Deregister(gone))
	name := fmt.Sprintf("region %#x", r.RKey())
	has := fmt.Sprintf("%s, which has 4096 bytes at 0x10000", name)
	for _, c := range []struct {
		pd      PD
		key     ib.RKey
		addr, n uint64
		need    ib.Access
		want    string
	}{
		{1, r.RKey(), iova + 4000, 1020, ib.AccessRemoteRead, "1020 bytes at 0x10fa0 end 924 bytes beyond " + has},
		{1, r.RKey(), iova - 8, 16, ib.AccessRemoteRead, "16 bytes at 0xfff8 begin 8 bytes before " + has},
		{1, r.RKey(), iova + size, 1, ib.AccessRemoteRead, "1 byte at 0x11000 are outside of " + has},
		{1, r.RKey(), iova - 8, 8, ib.AccessRemoteRead, "8 bytes at 0xfff8 are outside of " + has},
		{1, r.RKey(), 1<<64 - 1, 2, ib.AccessRemoteRead, "2 bytes at 0xffffffffffffffff are outside of " + has},
		{1, r.RKey(), iova, 8, ib.AccessRemoteWrite, name + " has the rights LOCAL_WRITE|REMOTE_READ, and the access needs REMOTE_WRITE"},
		{2, r.RKey(), iova, 8, ib.AccessRemoteRead, name + " belongs to protection domain 1, the queue pair to 2"},
		{1, ib.RKey(local.LKey()), iova, 8, ib.AccessRemoteRead, fmt.Sprintf("region %#x has no remote rights", local.LKey())},
		{1, goneKey, iova, 8, ib.AccessRemoteRead, fmt.Sprintf("the region or window with the key %#x no longer exists", goneKey)},
		{1, r.RKey() ^ 1, iova, 8, ib.AccessRemoteRead, fmt.Sprintf("no region or window has the key %#x any more: its key is now %#x", r.RKey()^1, r.RKey())},
		{1, named.RKey(), iova + size, 1, ib.AccessRemoteRead, fmt.Sprintf("1 byte at 0x11000 are outside of region %#x (registered by init), which has 4096 bytes at 0x10000", named.RKey())},
		{1, ib.RKey(again.LKey()), iova, 8, ib.AccessRemoteRead, fmt.Sprintf("region %#x (registered by change) has no remote rights", again.LKey())},
		{1, 0xffffff00, iova, 8, ib.AccessRemoteRead, "no region or window has the key 0xffffff00"},
	} {
		_, f := table.Remote(Via{PD: c.pd}, c.key, c.addr, c.n, c.need)
		if got := table.Denied(); got != uint32(c.key) {
			t.Errorf("%v: the refused key is %#x, want %#x", f, got, c.key)
		}
		if got := table.Why(f); got != c.want {
			t.Errorf("%v: %s\nwant %s", f, got, c.want)
		}
		if got := table.Denied(); got != 0 {
			t.Errorf("explained, and the refused key is still %#x", got)
		}
		if got := table.Why(f); got != f.String() {
			t.Errorf("asked again: %s", got)
		}
	}
	if _, f := table.Local(1, local.LKey(), iova+1, size, 0); table.Why(f) != fmt.Sprintf("4096 bytes at 0x10001 end 1 byte beyond region %#x, which has 4096 bytes at 0x10000", local.LKey()) {
		t.Error("a local access is not explained")
	}
	if _, f := table.Remote(Via{PD: 1}, r.RKey(), iova+size, 1, ib.AccessRemoteRead); table.Why(FaultMissing) != FaultMissing.String() || f != FaultRange {
		t.Error("another fault is explained by the newest access")
	}
}
