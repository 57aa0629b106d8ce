//go:build !ringmodel

package ring

import (
	"sync/atomic"
	"unsafe"
)

// shared is a mapping of memory that another process writes. Offsets are those in the memfd; after
// its end the mapping continues with its records a second time. Callers check offsets.
type shared struct{ base unsafe.Pointer }

// load loads a word. It is atomic, so the compiler neither repeats nor delays it.
func (m shared) load(at uint64) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(m.base, at)))
}

// bytes returns n bytes.
func (m shared) bytes(at uint64, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, at)), n)
}

// owned is a mapping that this process writes.
type owned struct{ shared }

// store stores a word. Loads and stores of both processes are sequentially consistent: a store
// is visible before anything that follows it, and everything before it is visible with it.
func (m owned) store(at, x uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(m.base, at)), x)
}

// put stores a word that the peer reads only after it has seen a later store.
func (m owned) put(at, x uint64) { *(*uint64)(unsafe.Add(m.base, at)) = x }
