package memory

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// operandSize is the size of the operand of an atomic operation in bytes.
const operandSize = 8

// CompareSwap replaces the number in b by swap if it equals compare, and
// returns its old value. b must be 8 bytes; the number is in host byte order
// (IBA 9.4.5). Memory that is 8-aligned is changed by one atomic instruction,
// so it is atomic to the program too; other memory (a region may begin
// anywhere, only the peer's address must be a multiple of 8) is atomic only to
// operations of the same adapter.
func CompareSwap(b []byte, compare, swap uint64) (orig uint64) {
	p := operand(b)
	if p == nil {
		orig = binary.NativeEndian.Uint64(b)
		if orig == compare {
			binary.NativeEndian.PutUint64(b, swap)
		}
		return orig
	}
	for {
		if atomic.CompareAndSwapUint64(p, compare, swap) {
			return compare
		}
		// The program may have stored this value between the two instructions,
		// so try the swap again.
		if orig = atomic.LoadUint64(p); orig != compare {
			return orig
		}
	}
}

// FetchAdd adds to the number in b, modulo 2^64, and returns its old value. b
// is as for CompareSwap.
func FetchAdd(b []byte, add uint64) (orig uint64) {
	if p := operand(b); p != nil {
		return atomic.AddUint64(p, add) - add
	}
	orig = binary.NativeEndian.Uint64(b)
	binary.NativeEndian.PutUint64(b, orig+add)
	return orig
}

// Store stores a number in b, which is as for CompareSwap: a reader of aligned memory sees the
// old number or the new one, never a mixture.
func Store(b []byte, value uint64) {
	if p := operand(b); p != nil {
		atomic.StoreUint64(p, value)
		return
	}
	binary.NativeEndian.PutUint64(b, value)
}

// operand returns b as a number, nil if it is not aligned for atomic
// instructions.
func operand(b []byte) *uint64 {
	if len(b) != operandSize {
		panic("memory: the operand of an atomic is not 8 bytes")
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%operandSize != 0 {
		return nil
	}
	return (*uint64)(p)
}
