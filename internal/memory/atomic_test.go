package memory

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// operandAt returns 8 bytes whose address is off past a multiple of 8, with a
// number in host order.
func operandAt(off int, v uint64) []byte {
	words := make([]uint64, 3)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 24)[off : off+8]
	binary.NativeEndian.PutUint64(b, v)
	return b
}

// TestE9_AtomicValues: both operations give back what was there, at any
// alignment of the memory, and wrap at 2^64. (The saved result is what a
// duplicate is answered with.)
func TestE9_AtomicValues(t *testing.T) {
	const top = ^uint64(0)
	for off := range 8 {
		if aligned := operand(operandAt(off, 0)) != nil; aligned != (off == 0) {
			t.Errorf("alignment %d: atomic instructions are used: %v", off, aligned)
		}
		for _, c := range []struct {
			name        string
			op          func([]byte) uint64
			start, want uint64
		}{
			{"add", func(b []byte) uint64 { return FetchAdd(b, 5) }, 7, 12},
			{"add that wraps", func(b []byte) uint64 { return FetchAdd(b, 3) }, top, 2},
			{"add -1", func(b []byte) uint64 { return FetchAdd(b, top) }, 0, top},
			{"add nothing", func(b []byte) uint64 { return FetchAdd(b, 0) }, 9, 9},
			{"equal", func(b []byte) uint64 { return CompareSwap(b, 7, top) }, 7, top},
			{"unequal", func(b []byte) uint64 { return CompareSwap(b, 8, top) }, 7, 7},
			{"unequal in the upper half", func(b []byte) uint64 { return CompareSwap(b, 7, 1) }, 7 | 1<<63, 7 | 1<<63},
			{"same", func(b []byte) uint64 { return CompareSwap(b, 7, 7) }, 7, 7},
		} {
			b := operandAt(off, c.start)
			if orig := c.op(b); orig != c.start {
				t.Errorf("%s, alignment %d: returned %#x, want %#x", c.name, off, orig, c.start)
			}
			if got := binary.NativeEndian.Uint64(b); got != c.want {
				t.Errorf("%s, alignment %d: left %#x, want %#x", c.name, off, got, c.want)
			}
		}
	}
}

// TestE9_AtomicToTheProgram: on aligned memory the operations are atomic to
// other goroutines, so nothing is counted twice or lost.
func TestE9_AtomicToTheProgram(t *testing.T) {
	const workers, rounds = 4, 5000
	sum, swapped := operandAt(0, 0), operandAt(0, 0)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				FetchAdd(sum, 1)
				for old := uint64(0); ; {
					orig := CompareSwap(swapped, old, old+1)
					if orig == old {
						break
					}
					old = orig
				}
			}
		})
	}
	wg.Wait()
	for name, b := range map[string][]byte{"fetch and add": sum, "compare and swap": swapped} {
		if n := binary.NativeEndian.Uint64(b); n != workers*rounds {
			t.Errorf("%s counted to %d, want %d", name, n, workers*rounds)
		}
	}
}

// TestE9_AtomicOperandSize: anything but 8 bytes is a broken invariant of the
// caller.
func TestE9_AtomicOperandSize(t *testing.T) {
	for _, n := range []int{0, 7, 9} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("an operand of %d bytes was accepted", n)
				}
			}()
			FetchAdd(make([]byte, n), 1)
		}()
	}
}

func BenchmarkAtomic(b *testing.B) {
	for off, name := range []string{"aligned", "unaligned"} {
		b.Run(name, func(b *testing.B) {
			p := operandAt(off, 0)
			for b.Loop() {
				CompareSwap(p, FetchAdd(p, 1)+1, 0)
			}
		})
	}
}

// TestM5_Store: Store writes 8 bytes at any alignment, and no other bytes. On aligned memory
// a reader never sees a mixture.
func TestM5_Store(t *testing.T) {
	const value = 0x1122334455667788
	for off := range 8 {
		b := operandAt(off, 0)
		around := unsafe.Slice((*byte)(unsafe.Pointer(uintptr(unsafe.Pointer(&b[0]))-uintptr(off))), 24)
		Store(b, value)
		want := make([]byte, 24)
		binary.NativeEndian.PutUint64(want[off:], value)
		if !bytes.Equal(around, want) {
			t.Errorf("alignment %d: % x, want % x", off, around, want)
		}
	}
	b := operandAt(0, 0)
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		for i := uint64(0); !done.Load(); i++ {
			Store(b, -(i & 1))
		}
	})
	for end := time.Now().Add(60 * time.Millisecond); time.Now().Before(end); { // some slices of a processor
		if v := atomic.LoadUint64(operand(b)); v != 0 && v != ^uint64(0) {
			t.Errorf("a reader saw %#x", v)
			break
		}
	}
	done.Store(true)
	wg.Wait()
}
