package ring

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
)

// scribbler is a program that writes everywhere in a queue.
type scribbler struct {
	*rand.Rand
	h *Header
}

// index returns an index that is wild, or close to a true one.
func (s scribbler) index() uint32 {
	near := []uint32{s.h.Prod.Load(), s.h.Cons.Load(), 0, 1 << 31, s.Uint32()}
	return near[s.IntN(len(near))] + uint32(s.IntN(5)) - 2
}

// scribble overwrites a word of the header or bytes of the entries, but not the
// lock, which would block everybody forever.
func (s scribbler) scribble(entries []byte) {
	switch s.IntN(8) {
	case 0:
		s.h.Prod.Store(s.index())
	case 1, 2:
		s.h.Cons.Store(s.index())
	case 3:
		s.h.Armed.Store(s.Uint32() >> s.IntN(32))
	case 4:
		s.h.Flags.Store(s.Uint32())
	case 5:
		s.h.Mask, s.h.Stride, s.h.Entries = s.Uint32(), s.Uint32(), s.Uint64()
	default:
		for range 1 + s.IntN(8) {
			at := s.IntN(len(entries)/4) * 4
			*(*uint32)(unsafe.Pointer(&entries[at])) = s.index()
		}
	}
}

// seeds are how many scribblers each queue meets.
const seeds = 600

// TestCQGarbage scribbles over a completion queue while it is used: the code
// does not panic, terminates, and writes nowhere else.
func TestCQGarbage(t *testing.T) {
	for seed := range uint64(seeds) {
		a := newArena(t)
		size := uint32(2)<<(seed%6) - 1
		c := newTestCQ(t, a.allocator(), size, uint32(seed%16)-8)
		s := scribbler{rand.New(rand.NewPCG(seed, 1)), c.hdr}
		out := make([]ib.WC, 2*size)
		for range 200 {
			switch s.IntN(10) {
			case 0:
				c.Remove(ib.QPN(s.IntN(3)))
			case 1:
				if n := uint32(s.IntN(64)); c.Resize(n) == nil {
					size = CQSize(n)
				}
			case 2:
				c.Fire(s.IntN(2) == 0)
				c.Arm(s.IntN(2) == 0)
			case 3, 4:
				if n := c.Poll(out); n > len(out) {
					t.Fatalf("seed %d: polled %d entries into %d", seed, n, len(out))
				}
			case 5, 6:
				c.Push(0, &ib.WC{QPN: ib.QPN(s.IntN(3))})
			default:
				s.scribble(unsafe.Slice((*byte)(unsafe.Pointer(c.base.Load())), uintptr(size+1)*cqeSize))
			}
			if c.Cap() != size {
				t.Fatalf("seed %d: the queue holds %d entries, want %d", seed, c.Cap(), size)
			}
			if n := c.waiting(); n > size {
				t.Fatalf("seed %d: %d of %d entries wait", seed, n, size)
			}
		}
		a.check()
		c.Free()
		a.empty()
	}
}

// TestRingGarbage does the same with a work queue: with any indices, at most
// all entries are in use, only the consumer moves its index, and every entry is
// inside the queue.
func TestRingGarbage(t *testing.T) {
	for seed := range uint64(seeds) {
		a := newArena(t)
		r := newRing(t, a.allocator(), 1<<(seed%6), uint32(seed%16)-8)
		s := scribbler{rand.New(rand.NewPCG(seed, 2)), r.hdr}
		entries := unsafe.Slice((*byte)(r.base), r.Cap()*r.stride)
		lowest, highest := uintptr(r.base), uintptr(r.base)+uintptr(len(entries))
		for range 200 {
			cons := r.Cons()
			switch s.IntN(8) {
			case 0:
				r.Retire()
				if r.Release(); r.Cons() != cons+1 {
					t.Fatalf("seed %d: release moved the index from %d to %d", seed, cons, r.Cons())
				}
			case 1:
				r.Reset()
			case 2, 3:
				if !r.Full(r.Prod()) {
					r.Publish(r.Prod() + 1)
				}
			default:
				if s.scribble(entries); r.Cons() != cons {
					t.Fatalf("seed %d: somebody else moved the index from %d to %d", seed, cons, r.Cons())
				}
			}
			n, ok := r.Len()
			if n > r.Cap() || ok != (r.Prod()-r.Cons() <= r.Cap()) {
				t.Fatalf("seed %d: %d of %d entries in use, sense %v, indices %d to %d", seed, n, r.Cap(), ok, r.Cons(), r.Prod())
			}
			for _, i := range []uint32{r.Cons(), r.Prod(), s.index()} {
				sges := r.SGEs(i, 1)
				if at, end := uintptr(unsafe.Pointer(r.At(i))), uintptr(unsafe.Pointer(&sges[0]))+unsafe.Sizeof(sges[0]); at < lowest || end > highest {
					t.Fatalf("seed %d: index %d is outside of the queue", seed, i)
				}
			}
		}
		a.check()
		r.Free()
		a.empty()
	}
}
