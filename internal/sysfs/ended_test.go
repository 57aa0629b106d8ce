//go:build linux

package sysfs

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
)

// TestAddEnded adds the counts of several adapters that end at once, while another one has the board.
func TestAddEnded(t *testing.T) {
	second := describe("127.0.0.2")
	second.Name = "softhca1"
	p := mustShow(t, images(t), describe("127.0.0.1"), time.Now(), second)
	b, err := Attach(p.Root, 1)
	must.Do(t, err)
	defer b.Close()
	b.Engine.SentPkts = 5
	const processes = 20
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			var own device.Board
			own.Engine.SentPkts = 100
			own.Port.Received(3, 4000)
			own.Port.Near[fabric.NearPeers].Store(1)
			own.Port.Near[fabric.NearMemory].Store(1 << 20)
			own.Port.Near[fabric.NearGarbage].Store(2)
			own.Down.Store(1)
			removed := 0
			if err := AddEnded(p.Root, 1, &own, func() { removed++ }); err != nil || removed != 1 {
				t.Errorf("%v, %d tables removed", err, removed)
			}
		})
	}
	wg.Wait()
	for name, want := range map[string]uint64{
		"hw_counters/sent_pkts": 5 + 100*processes, "counters/port_rcv_data": 1000 * processes, "hw_counters/near_garbled_meetings": 2 * processes,
		"hw_counters/near_peers": 0, "hw_counters/near_memory_bytes": 0,
	} {
		if got := valueOf(t, p, "softhca1", name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
		if got := valueOf(t, p, "softhca0", name); got != 0 {
			t.Errorf("%s of the other adapter is %d", name, got)
		}
	}
	if b.Engine.SentPkts != 5 || b.Down.Load() != 0 {
		t.Error("the board of the running process has changed")
	}
}

// TestAddEndedSequence checks that the sequence number is odd while counts change, also after a process
// that was killed has left an odd one.
func TestAddEndedSequence(t *testing.T) {
	p := mustShow(t, images(t), describe("127.0.0.1"), time.Now())
	f, err := os.OpenFile(filepath.Join(p.Root, boardName), os.O_RDWR, 0)
	must.Do(t, err)
	defer f.Close()
	e := ended{file: f}
	for _, was := range []uint64{0, 7} {
		must.Do(t, e.put(int64(endedStart)-wordSize, was))
		seq := func() uint64 {
			n, err := e.word(int64(endedStart) - wordSize)
			must.Do(t, err)
			return n
		}
		during := uint64(0)
		must.Do(t, AddEnded(p.Root, 0, new(device.Board), func() { during = seq() }))
		if after := seq(); during%2 != 1 || after%2 != 0 || after <= was {
			t.Errorf("sequence number %d, then %d, then %d", was, during, after)
		}
	}
}

// TestAddEndedRefuses checks that the table is removed when its counts are lost.
func TestAddEndedRefuses(t *testing.T) {
	p := mustShow(t, images(t), describe("127.0.0.1"), time.Now())
	f, err := os.OpenFile(filepath.Join(p.Root, boardName), os.O_RDWR, 0)
	must.Do(t, err)
	defer f.Close()
	e := ended{file: f}
	lost := func(why, root string, want error) {
		t.Helper()
		removed := 0
		if err := AddEnded(root, 0, new(device.Board), func() { removed++ }); !errors.Is(err, want) || removed != 1 {
			t.Errorf("%s: %v, want %v; %d tables removed", why, err, want, removed)
		}
	}
	must.Do(t, e.lock())
	lost("a process that has stopped while it adds", p.Root, unix.EAGAIN)
	must.Do(t, e.put(0, layout()+1))
	lost("another layout", p.Root, ib.EINVAL)
	lost("no image", t.TempDir(), os.ErrNotExist)
}
