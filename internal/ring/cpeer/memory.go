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

// Allocator returns the heap as an allocator for queues.
func (m *Memory) Allocator() ring.Allocator { return ring.Allocator{Alloc: m.Alloc, Free: m.Free} }

// Alloc returns size zero bytes, nil without memory.
func (m *Memory) Alloc(size int) []byte {
	p := C.calloc(1, C.size_t(size))
	if p == nil {
		return nil
	}
	m.live.Add(1)
	return unsafe.Slice((*byte)(p), size)
}

// Free takes back what Alloc returned. It overwrites the memory first, so that
// a late reader finds garbage.
func (m *Memory) Free(b []byte) {
	for i := range b {
		b[i] = 0xa5
	}
	m.live.Add(-1)
	C.free(unsafe.Pointer(unsafe.SliceData(b)))
}

// Live returns the number of blocks not freed.
func (m *Memory) Live() int { return int(m.live.Load()) }
