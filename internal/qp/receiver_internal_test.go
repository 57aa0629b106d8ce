//go:build cgo

package qp

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/internal/ring/cpeer"
)

// TestEntryChangesMeanwhile has somebody change the number of elements of a
// receive while it is taken: what was found to fit is what is used. The queue
// is in memory of C, where such a writer is no data race of ours.
func TestEntryChangesMeanwhile(t *testing.T) {
	const most, takes = 4, 1 << 21
	var m cpeer.Memory
	var q recvQueue
	if err := q.init(m.Allocator(), 1, most); err != nil {
		t.Fatal(err)
	}
	defer q.Free(m.Allocator())
	q.Publish(1)
	elements := (*atomic.Uint32)(unsafe.Pointer(&q.At(0).NumSGE))
	var writer sync.WaitGroup
	var stop atomic.Bool
	defer writer.Wait()
	defer stop.Store(true)
	writer.Go(func() {
		for !stop.Load() {
			elements.Store(1 << 27)
			elements.Store(most)
		}
	})
	for range takes {
		s := recvSlot{}
		if !q.take(&s) {
			t.Fatal("the queue is empty")
		}
		if n := len(s.sges); n > most {
			t.Fatalf("a receive with %d elements was taken from a queue for %d", n, most)
		}
	}
}
