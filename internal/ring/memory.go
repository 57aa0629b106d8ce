package ring

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// Allocator allocates the memory of queues. The zero value uses Go's heap and
// needs no Free. Several threads may call both functions at once.
type Allocator struct {
	// Alloc returns size zeroed bytes, aligned to 8, or nil if there are none.
	// The queue owns them until Free.
	Alloc func(size int) []byte
	// Free frees memory of Alloc, which the adapter no longer uses.
	Free func([]byte)
}

// Or returns a, or b if a is the zero value.
func (a Allocator) Or(b Allocator) Allocator {
	if a.Alloc == nil {
		return b
	}
	return a
}

// get returns size bytes of memory; ENOMEM if there is none, EINVAL if the
// allocator violates its contract.
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

// put frees size bytes at p.
func (a Allocator) put(p unsafe.Pointer, size int) {
	if a.Free != nil && p != nil {
		a.Free(unsafe.Slice((*byte)(p), size))
	}
}

// Take returns size zeroed bytes, aligned to 8, for other memory that both
// sides of the queues share; errors as for a queue.
func (a Allocator) Take(size int) ([]byte, error) {
	p, err := a.get(size)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// Return frees memory of Take.
func (a Allocator) Return(mem []byte) { a.put(unsafe.Pointer(unsafe.SliceData(mem)), len(mem)) }

// Size returns the number of entries that a queue for n entries gets: the next
// power of two, at least 1.
func Size(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}
