//go:build cgo

package cpeer

// #include "peer.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
)

// Board tells readers which completions were removed from their queue, for
// queue pairs with small numbers.
type Board struct{ c *C.struct_board }

// NewBoard returns an empty board, nil if there is no memory.
func NewBoard(m *Memory) *Board {
	b := m.Alloc(C.sizeof_struct_board)
	if b == nil {
		return nil
	}
	return &Board{(*C.struct_board)(unsafe.Pointer(unsafe.SliceData(b)))}
}

// Free gives the memory back. No reader may run.
func (b *Board) Free(m *Memory) {
	m.Free(unsafe.Slice((*byte)(unsafe.Pointer(b.c)), C.sizeof_struct_board))
}

// Removed is called after the completions of n with a WRID less than below
// were removed: a reader that takes one from now on marks it as late.
func (b *Board) Removed(n ib.QPN, below uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b.c.removed[n])), below)
}

// Taken is a completion that a reader took.
type Taken struct {
	WRID   uint64
	QPN    ib.QPN
	Late   bool // after it had been removed
	Status ib.WCStatus
	_      [2]byte
}

// Reader is a thread of C that takes completions from a queue.
type Reader struct{ c *C.struct_reader }

// StartReader starts a reader with room for room completions, nil without
// memory or a thread.
func StartReader(h *ring.Header, b *Board, room int) *Reader {
	r := C.reader_start((*C.struct_ring)(unsafe.Pointer(h)), b.c, C.size_t(room))
	if r == nil {
		return nil
	}
	return &Reader{r}
}

// Overflowed reports whether the reader has seen the mark of overflow.
func (r *Reader) Overflowed() bool { return C.reader_overflow(r.c) != 0 }

// Stop lets the reader take the remaining completions, ends it, and returns all
// its completions in order.
func (r *Reader) Stop() []Taken {
	C.reader_stop(r.c)
	got := unsafe.Slice((*Taken)(unsafe.Pointer(C.reader_taken(r.c))), int(C.reader_count(r.c)))
	got = append([]Taken(nil), got...)
	C.reader_free(r.c)
	return got
}

// LockedAdd adds 1 to counter n times, each time with the readers' lock of a
// queue held. It blocks until done. counter is in memory of C.
func LockedAdd(h *ring.Header, counter *uint64, n int) {
	C.locked_add((*C.struct_ring)(unsafe.Pointer(h)), (*C.uint64_t)(unsafe.Pointer(counter)), C.uint64_t(n))
}
