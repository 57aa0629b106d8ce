package writes

import (
	"math/rand/v2"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
)

// TestUnfinishedWrite takes marks after a write is recorded, while the adapter may still copy: until recent other
// writes follow, the memory may have changed since the mark.
func TestUnfinishedWrite(t *testing.T) {
	const addr = 0x1000
	table := memory.NewTable(rand.Uint32, memory.Limits{Regions: 1})
	table.LogWrites(Log())
	buf := make([]byte, 128)
	r, err := table.Register(memory.RegionConfig{PD: 1, Buf: buf, IOVA: addr, HasIOVA: true, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite})
	if err != nil {
		t.Fatal(err)
	}
	write := func(off uint64) {
		if _, f := table.Remote(memory.Via{PD: 1}, r.RKey(), addr+off, 64, ib.AccessRemoteWrite); f != memory.FaultNone {
			t.Fatal(f)
		}
	}
	write(0)
	for i := range recent + 1 {
		if wrote := Now().Wrote(buf[:64]); wrote != (i < recent) {
			t.Errorf("%d writes after the one to the memory: it may have changed since the mark: %t", i, wrote)
		}
		write(64)
	}
}
