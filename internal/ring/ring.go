package ring

import (
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// Ring is a work queue: a bounded queue of entries of type T with room behind
// each. One thread at a time may produce (Next, Publish, Full), which may be
// somebody outside Go; one at a time may consume (the other methods).
type Ring[T any] struct {
	hdr    *Header
	base   unsafe.Pointer // of entry 0
	mask   uint32
	stride uint32
	cons   uint32 // the consumer's index; the header has a copy for the producer
}

// Sizes in bytes of what stands behind an entry.
const (
	sgeSize    = uint32(unsafe.Sizeof(ib.SGE{}))
	SendToSize = uint32(unsafe.Sizeof(SendTo{}))
)

// SGERoom returns the bytes that n scatter/gather elements take.
func SGERoom(n uint32) uint32 { return n * sgeSize }

// Init makes r an empty queue of at least n entries with room bytes behind
// each. ENOMEM or EINVAL if the allocator fails.
func (r *Ring[T]) Init(a Allocator, n, room uint32) error {
	var entry T
	n, r.stride = Size(n), (uint32(unsafe.Sizeof(entry))+room+7)&^7
	p, err := a.get(HeaderSize + int(n)*int(r.stride))
	if err != nil {
		return err
	}
	r.hdr, r.base, r.mask = (*Header)(p), unsafe.Add(p, HeaderSize), n-1
	r.hdr.Mask, r.hdr.Stride, r.hdr.Entries = r.mask, r.stride, uint64(uintptr(r.base))
	return nil
}

// Free gives the memory back. Nothing may be called afterwards.
func (r *Ring[T]) Free(a Allocator) {
	a.put(unsafe.Pointer(r.hdr), HeaderSize+int(r.Cap())*int(r.stride))
}

// Cap returns the number of entries.
func (r *Ring[T]) Cap() uint32 { return r.mask + 1 }

// Slot returns the position of index i, for arrays that run beside the queue.
func (r *Ring[T]) Slot(i uint32) uint32 { return i & r.mask }

// At returns the entry of index i.
func (r *Ring[T]) At(i uint32) *T {
	return (*T)(unsafe.Add(r.base, uintptr(i&r.mask)*uintptr(r.stride)))
}

// SGEs returns the first n scatter/gather elements behind the entry of index
// i. The room must be enough.
func (r *Ring[T]) SGEs(i, n uint32) []ib.SGE { return room[ib.SGE](r, i, n) }

// Inline returns the first n bytes behind the entry of index i. The room must
// be enough.
func (r *Ring[T]) Inline(i, n uint32) []byte { return room[byte](r, i, n) }

// To returns where the datagram of index i goes, in a queue whose room has
// SendToSize bytes for it.
func (r *Ring[T]) To(i uint32) *SendTo {
	return (*SendTo)(unsafe.Add(unsafe.Pointer(r.At(i)), r.stride-SendToSize))
}

func room[E, T any](r *Ring[T], i, n uint32) []E {
	if n == 0 {
		return nil
	}
	var entry T
	return unsafe.Slice((*E)(unsafe.Add(unsafe.Pointer(r.At(i)), unsafe.Sizeof(entry))), n)
}

// Prod returns the index that is published next.
func (r *Ring[T]) Prod() uint32 { return r.hdr.Prod.Load() }

// Full reports whether the producer may not write the entry of index i, the
// next one, because it is in use still.
func (r *Ring[T]) Full(i uint32) bool { return i-r.hdr.Cons.Load() >= r.Cap() }

// Idle reports to the producer whether none is in use of the entries before
// index i, the next one.
func (r *Ring[T]) Idle(i uint32) bool { return i == r.hdr.Cons.Load() }

// Header returns the beginning of the queue's memory.
func (r *Ring[T]) Header() *Header { return r.hdr }

// AskDoorbell has producers ring the doorbell from now on, or no longer: who
// publishes afterwards sees it, and what was published before is seen by who
// asks.
func (r *Ring[T]) AskDoorbell(ask bool) {
	if ask {
		r.hdr.Flags.Or(FlagDoorbell)
	} else {
		r.hdr.Flags.And(^FlagDoorbell)
	}
}

// Publish makes the entries before index end visible to the consumer.
func (r *Ring[T]) Publish(end uint32) { r.hdr.Prod.Store(end) }

// Cons returns the oldest index in use; equal to Prod when the queue is empty.
func (r *Ring[T]) Cons() uint32 { return r.cons }

// Len returns the number of entries in use, never more than there are, and
// whether the producer's index makes sense.
func (r *Ring[T]) Len() (n uint32, ok bool) {
	n = r.hdr.Prod.Load() - r.cons
	return min(n, r.Cap()), n <= r.Cap()
}

// Retire takes the oldest entry out. The producer learns of it by Release.
func (r *Ring[T]) Retire() { r.cons++ }

// Release gives what was retired back to the producer.
func (r *Ring[T]) Release() { r.hdr.Cons.Store(r.cons) }

// Reset empties the queue. The producer must not be at work.
func (r *Ring[T]) Reset() {
	r.cons = r.hdr.Prod.Load()
	r.hdr.Cons.Store(r.cons)
}
