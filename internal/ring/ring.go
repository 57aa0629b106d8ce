package ring

import (
	"fmt"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// Ring is a work queue: a bounded queue of entries of type T with extra room
// after each. One thread at a time may produce (write entries, Publish, Full),
// also one outside Go; one thread at a time may consume (the other methods).
type Ring[T any] struct {
	alloc  Allocator
	hdr    *Header
	base   unsafe.Pointer // of entry 0
	mask   uint32
	stride uint32
	cons   uint32 // the consumer's index; the header has a copy for the producer
	first  uint32 // entries that Init placed behind the header; Resize leaves their memory there
}

// Sizes in bytes of the parts after an entry.
const (
	sgeSize    = uint32(unsafe.Sizeof(ib.SGE{}))
	SendToSize = uint32(unsafe.Sizeof(SendTo{}))
)

// SGERoom returns the bytes that n scatter/gather elements take.
func SGERoom(n uint32) uint32 { return n * sgeSize }

// strideOf returns the number of bytes from one entry to the next, with room bytes after each.
func strideOf[T any](room uint32) uint32 {
	var entry T
	return (uint32(unsafe.Sizeof(entry)) + room + 7) &^ 7
}

// Bytes returns how much memory Init allocates.
func Bytes[T any](n, room uint32) int { return HeaderSize + int(Size(n))*int(strideOf[T](room)) }

// Init makes r an empty queue of at least n entries with room bytes after each, in memory of a, which
// Resize and Free use, too. ENOMEM or EINVAL if the allocator fails.
func (r *Ring[T]) Init(a Allocator, n, room uint32) error {
	p, err := a.get(Bytes[T](n, room))
	if err != nil {
		return err
	}
	n = Size(n)
	r.alloc, r.hdr, r.stride, r.first = a, (*Header)(p), strideOf[T](room), n
	r.place(unsafe.Add(p, HeaderSize), n)
	return nil
}

// place makes memory at base the n entries of the queue.
func (r *Ring[T]) place(base unsafe.Pointer, n uint32) {
	r.base, r.mask = base, n-1
	r.hdr.Mask, r.hdr.Stride, r.hdr.Entries = r.mask, r.stride, uint64(uintptr(base))
}

// moved reports whether Resize has moved the entries away from the header.
func (r *Ring[T]) moved() bool { return r.base != unsafe.Add(unsafe.Pointer(r.hdr), HeaderSize) }

// Resize changes the number of entries to at least n; the entries in use stay, and the header
// does not move. The caller is the only producer and the only consumer. EINVAL if the entries
// in use would not fit or the producer's index is invalid; ENOMEM or EINVAL if the allocator
// fails.
func (r *Ring[T]) Resize(n uint32) error {
	used, ok := r.Len()
	if n = Size(n); !ok || n < used {
		return fmt.Errorf("resize a queue to %d entries: %d are in use: %w", n, used, ib.EINVAL)
	}
	base, err := r.alloc.get(int(n) * int(r.stride))
	if err != nil {
		return fmt.Errorf("resize a queue: %w", err)
	}
	old, size, moved := *r, int(r.Cap())*int(r.stride), r.moved()
	r.place(base, n)
	for i := r.cons; i != r.cons+used; i++ {
		copy(r.bytes(i), old.bytes(i))
	}
	if moved {
		r.alloc.put(old.base, size)
	}
	return nil
}

// bytes returns entry i with the room after it.
func (r *Ring[T]) bytes(i uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r.At(i))), r.stride)
}

// Free frees the memory. No method may be called afterwards.
func (r *Ring[T]) Free() {
	if r.moved() {
		r.alloc.put(r.base, int(r.Cap())*int(r.stride))
	}
	r.alloc.put(unsafe.Pointer(r.hdr), HeaderSize+int(r.first)*int(r.stride))
}

// Cap returns the number of entries.
func (r *Ring[T]) Cap() uint32 { return r.mask + 1 }

// Slot returns the position of index i, for arrays parallel to the queue.
func (r *Ring[T]) Slot(i uint32) uint32 { return i & r.mask }

// At returns the entry of index i.
func (r *Ring[T]) At(i uint32) *T {
	return (*T)(unsafe.Add(r.base, uintptr(i&r.mask)*uintptr(r.stride)))
}

// SGEs returns the first n scatter/gather elements after entry i, which must
// have room for them.
func (r *Ring[T]) SGEs(i, n uint32) []ib.SGE { return room[ib.SGE](r, i, n) }

// Inline returns the first n bytes after entry i, which must have room for
// them.
func (r *Ring[T]) Inline(i, n uint32) []byte { return room[byte](r, i, n) }

// To returns the destination of datagram i, in a queue whose room includes
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

// Prod returns the next index to publish.
func (r *Ring[T]) Prod() uint32 { return r.hdr.Prod.Load() }

// Full reports to the producer whether entry i, the next one, is still in use.
func (r *Ring[T]) Full(i uint32) bool { return i-r.hdr.Cons.Load() >= r.Cap() }

// Idle reports to the producer whether no entry before i, the next one, is in
// use.
func (r *Ring[T]) Idle(i uint32) bool { return i == r.hdr.Cons.Load() }

// Header returns the header at the start of the queue's memory.
func (r *Ring[T]) Header() *Header { return r.hdr }

// AskDoorbell sets whether producers must ring the doorbell. A producer that
// publishes afterwards sees the setting; the caller sees entries published
// before.
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

// Len returns the number of entries in use, at most Cap, and whether the
// producer's index is valid.
func (r *Ring[T]) Len() (n uint32, ok bool) {
	n = r.hdr.Prod.Load() - r.cons
	return min(n, r.Cap()), n <= r.Cap()
}

// Retire removes the oldest entry. Release makes that visible to the producer.
func (r *Ring[T]) Retire() { r.cons++ }

// Release makes retired entries available to the producer.
func (r *Ring[T]) Release() { r.hdr.Cons.Store(r.cons) }

// Reset empties the queue. No producer may be active.
func (r *Ring[T]) Reset() {
	r.cons = r.hdr.Prod.Load()
	r.hdr.Cons.Store(r.cons)
}
