package ring

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// Allocator gives queues their memory. The zero value takes it from Go's heap,
// where nothing need be given back. Both functions are called by the thread
// that holds the shard.
type Allocator struct {
	// Alloc returns size bytes that are zero and begin at a multiple of 8, or
	// nil if there are none. They are the queue's until Free.
	Alloc func(size int) []byte
	// Free takes back what Alloc returned: no part of the adapter uses it any
	// more.
	Free func([]byte)
}

// get returns size bytes of memory; ENOMEM if there is none, EINVAL if the
// allocator breaks its promise.
func (a Allocator) get(size int) (unsafe.Pointer, error) {
	if a.Alloc == nil {
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8))), nil
	}
	mem := a.Alloc(size)
	switch p := unsafe.Pointer(unsafe.SliceData(mem)); {
	case mem == nil:
		return nil, fmt.Errorf("%d bytes for a queue: the allocator has none: %w", size, ib.ENOMEM)
	case len(mem) < size || uintptr(p)%8 != 0:
		if a.Free != nil {
			a.Free(mem)
		}
		return nil, fmt.Errorf("the allocator gave %d bytes at %p for a queue, want %d at a multiple of 8: %w", len(mem), p, size, ib.EINVAL)
	default:
		return p, nil
	}
}

// put gives size bytes at p back.
func (a Allocator) put(p unsafe.Pointer, size int) {
	if a.Free != nil && p != nil {
		a.Free(unsafe.Slice((*byte)(p), size))
	}
}

// Size returns the number of entries that a queue for n entries gets: the next
// power of two, at least 1.
func Size(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}
