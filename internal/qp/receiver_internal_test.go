//go:build cgo

package qp

import (
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/ring/cpeer"
)

// TestEntryChangesMeanwhile has another thread change the number of elements of
// a receive while it is taken: the adapter uses the number that it has checked.
// The queue is in C memory, so that Go's race detector does not see the writer.
func TestEntryChangesMeanwhile(t *testing.T) {
	const most, takes = 4, 1 << 21
	var m cpeer.Memory
	var q recvQueue
	must.Do(t, q.init(m.Allocator(), 1, most))
	defer q.Free()
	q.Publish(1)
	writer := cpeer.StartFlicker(&q.At(0).NumSGE, 1<<27, most)
	if writer == nil {
		t.Fatal("no thread of C")
	}
	defer writer.Stop()
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
