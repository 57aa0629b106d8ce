//go:build cgo

package cpeer

// #include <stdlib.h>
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/softhca/softhca/internal/ring"
)

// Memory is the C heap. The zero value is ready; any goroutine may use it.
type Memory struct{ live atomic.Int64 }

// Allocator returns the heap as queues take it.
func (m *Memory) Allocator() ring.Allocator { return ring.Allocator{Alloc: m.Alloc, Free: m.Free} }

// Alloc returns size bytes that are zero, nil if there are none.
func (m *Memory) Alloc(size int) []byte {
	p := C.calloc(1, C.size_t(size))
	if p == nil {
		return nil
	}
	m.live.Add(1)
	return unsafe.Slice((*byte)(p), size)
}

// Free takes back what Alloc returned. A reader that still looks there finds
// nothing that makes sense.
func (m *Memory) Free(b []byte) {
	for i := range b {
		b[i] = 0xa5
	}
	m.live.Add(-1)
	C.free(unsafe.Pointer(unsafe.SliceData(b)))
}

// Live returns how many blocks were not given back.
func (m *Memory) Live() int { return int(m.live.Load()) }
