package restrack

import (
	"sync/atomic"
	"unsafe"
)

// Row is the row of an object. Set replaces its identity I as a whole. Its counters C are single words;
// each has one writer, which stores it directly. I and C contain no pointers, and their sizes are
// multiples of 8 bytes.
type Row[I, C any] struct {
	seq  atomic.Uint64 // rowWriting, rowLive, and from bit 2 on the number of changes
	info I
	// Counts are the counters.
	Counts C
}

// Flags of Row.seq. The number of changes never repeats, so a reader cannot take the row of a new
// object for that of an old one.
const (
	rowWriting = 1 << iota // the identity is being written
	rowLive                // the row has an object
	rowChange              // one change
)

// Set replaces the identity. One thread calls it at a time.
func (r *Row[I, C]) Set(info *I) {
	next := r.begin() | rowLive
	storeWords(unsafe.Pointer(&r.info), unsafe.Pointer(info), unsafe.Sizeof(*info))
	r.seq.Store(next)
}

// begin begins a change and returns the value of seq after it, without rowLive.
func (r *Row[I, C]) begin() uint64 {
	seq := r.seq.Load()
	r.seq.Store(seq | rowWriting)
	return seq&^(rowWriting|rowLive) + rowChange
}

// free clears the row.
func (r *Row[I, C]) free() {
	next := r.begin()
	var info I
	storeWords(unsafe.Pointer(&r.info), unsafe.Pointer(&info), unsafe.Sizeof(info))
	var counts C
	storeWords(unsafe.Pointer(&r.Counts), unsafe.Pointer(&counts), unsafe.Sizeof(counts))
	r.seq.Store(next)
}

// maxReads bounds the attempts to read a row that changes meanwhile.
const maxReads = 100

// read copies the row to info and counts. It reports false if the row is free, or its writer was
// interrupted, or died, while it wrote the identity.
func (r *Row[I, C]) read(info *I, counts *C) bool {
	for range maxReads {
		seq := r.seq.Load()
		if seq&rowWriting != 0 {
			continue
		}
		if seq&rowLive == 0 {
			return false
		}
		loadWords(unsafe.Pointer(info), unsafe.Pointer(&r.info), unsafe.Sizeof(*info))
		loadWords(unsafe.Pointer(counts), unsafe.Pointer(&r.Counts), unsafe.Sizeof(*counts))
		if r.seq.Load() == seq {
			return true
		}
	}
	return false
}

const word = unsafe.Sizeof(uint64(0))

// storeWords copies n bytes to a row, a word at a time.
func storeWords(to, from unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n; i += word {
		atomic.StoreUint64((*uint64)(unsafe.Add(to, i)), *(*uint64)(unsafe.Add(from, i)))
	}
}

// loadWords copies n bytes from a row, a word at a time.
func loadWords(to, from unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n; i += word {
		*(*uint64)(unsafe.Add(to, i)) = atomic.LoadUint64((*uint64)(unsafe.Add(from, i)))
	}
}
