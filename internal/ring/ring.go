package ring

import (
	"math/bits"
	"sync/atomic"
)

// Ring is a bounded queue of entries of type T, which must not hold pointers.
// Indices run freely and wrap at 2^32; At maps them to entries. One goroutine
// at a time may produce (Free, Next, Publish), one at a time may consume.
type Ring[T any] struct {
	buf  []T
	mask uint32
	prod atomic.Uint32 // next index to be published
	cons atomic.Uint32 // oldest index still in use
}

// Size returns the number of entries that a ring for n entries gets: the next
// power of two, at least 1.
func Size(n uint32) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(n-1)
}

// Init makes r an empty ring over buf, whose length must be a power of two.
// The ring keeps buf.
func (r *Ring[T]) Init(buf []T) {
	if n := len(buf); n == 0 || n&(n-1) != 0 {
		panic("ring: length is not a power of two")
	}
	r.buf, r.mask = buf, uint32(len(buf)-1)
	r.prod.Store(0)
	r.cons.Store(0)
}

// Cap returns the number of entries.
func (r *Ring[T]) Cap() uint32 { return uint32(len(r.buf)) }

// At returns the entry of index i.
func (r *Ring[T]) At(i uint32) *T { return &r.buf[i&r.mask] }

// Slot returns the position of index i in the array, for arrays that run
// beside the ring.
func (r *Ring[T]) Slot(i uint32) uint32 { return i & r.mask }

// Prod returns the index that will be published next.
func (r *Ring[T]) Prod() uint32 { return r.prod.Load() }

// Cons returns the oldest index in use; equal to Prod when the ring is empty.
func (r *Ring[T]) Cons() uint32 { return r.cons.Load() }

// Len returns the number of entries in use.
func (r *Ring[T]) Len() uint32 { return r.prod.Load() - r.cons.Load() }

// Full reports whether there is no entry left for the producer.
func (r *Ring[T]) Full() bool { return r.Len() == r.Cap() }

// Next returns the entry that the producer fills before Publish. The ring
// must not be full.
func (r *Ring[T]) Next() *T { return r.At(r.prod.Load()) }

// Publish makes the entry from Next visible to the consumer.
func (r *Ring[T]) Publish() { r.prod.Store(r.prod.Load() + 1) }

// Release gives n entries back, oldest first.
func (r *Ring[T]) Release(n uint32) { r.cons.Store(r.cons.Load() + n) }

// Reset empties the ring. Neither side may be at work.
func (r *Ring[T]) Reset() {
	r.cons.Store(r.prod.Load())
}
