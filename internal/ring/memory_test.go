package ring

import (
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// arena is an allocator that tracks its blocks, and detects writes beyond them.
type arena struct {
	t      testing.TB
	blocks map[*byte]arenaBlock // not freed
	given  int
	refuse int // number of the call, from 1, whose result spoil changes
	spoil  func([]byte) []byte
}

type arenaBlock struct {
	words []uint64 // canaries on both sides
	size  int      // as given
}

// canaryWords are before and after each block.
const (
	canaryWords = 16
	canary      = uint64(0xdead_c0de_feed_f00d)
)

func newArena(t testing.TB) *arena {
	return &arena{t: t, blocks: make(map[*byte]arenaBlock)}
}

func (a *arena) allocator() Allocator { return Allocator{Alloc: a.alloc, Free: a.free} }

func (a *arena) alloc(size int) []byte {
	words := make([]uint64, 2*canaryWords+(size+7)/8)
	for i := range canaryWords {
		words[i], words[len(words)-1-i] = canary, canary
	}
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[canaryWords])), size)
	if a.given++; a.given == a.refuse {
		if mem = a.spoil(mem); mem == nil {
			return nil
		}
	}
	a.blocks[unsafe.SliceData(mem)] = arenaBlock{words, len(mem)}
	return mem
}

func (a *arena) free(mem []byte) {
	b, ok := a.blocks[unsafe.SliceData(mem)]
	if !ok || b.size != len(mem) {
		a.t.Fatalf("%d bytes are given back that were not given, or twice", len(mem))
	}
	a.check()
	delete(a.blocks, unsafe.SliceData(mem))
	clear(b.words) // it is no longer needed
}

// check fails the test if the words around a block have changed.
func (a *arena) check() {
	for _, b := range a.blocks {
		for i := range canaryWords {
			if b.words[i] != canary || b.words[len(b.words)-1-i] != canary {
				a.t.Fatal("the queue wrote outside of its memory")
			}
		}
	}
}

// empty fails the test if something was not given back.
func (a *arena) empty() {
	if len(a.blocks) != 0 {
		a.t.Errorf("%d of %d blocks were not given back", len(a.blocks), a.given)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint32]uint32{0: 1, 1: 1, 2: 2, 3: 4, 16: 16, 17: 32, 1<<31 - 1: 1 << 31, 1 << 31: 1 << 31} {
		if got := Size(n); got != want {
			t.Errorf("a queue for %d entries gets %d, want %d", n, got, want)
		}
	}
}

// TestBytes shows that callers with memory of their own can find out how much a queue needs.
func TestBytes(t *testing.T) {
	for n := uint32(0); n < 70; n++ {
		var sizes []int
		a := Allocator{Alloc: func(size int) []byte {
			sizes = append(sizes, size)
			return make([]byte, size)
		}}
		must.Do(t, new(Ring[RecvWQE]).Init(a, n, n))
		for _, timed := range []bool{false, true} {
			_, err := NewCQ(a, n, timed)
			must.Do(t, err)
		}
		want := []int{Bytes[RecvWQE](n, n), HeaderSize, CQBytes(n, false), HeaderSize, CQBytes(n, true)}
		if !slices.Equal(sizes, want) {
			t.Errorf("queues for %d entries get blocks of %v bytes, want %v", n, sizes, want)
		}
	}
	if CQBytes(8, true) <= CQBytes(8, false) {
		t.Error("entries with a time are as small as those without")
	}
}

// TestMemoryIsGivenBack shows that every block is given back once, whatever
// became of the queue before.
func TestMemoryIsGivenBack(t *testing.T) {
	a := newArena(t)
	var s Ring[SendWQE]
	must.Do(t, s.Init(a.allocator(), 3, 24))
	c, err := NewCQ(a.allocator(), 4, false)
	must.Do(t, err)
	for _, n := range []uint32{64, 2, 2} {
		must.Do(t, c.Resize(n))
		if len(a.blocks) != 3 {
			t.Fatalf("%d blocks are in use after resizing, want one of the send queue and two of the completion queue", len(a.blocks))
		}
	}
	s.Free()
	c.Free()
	a.empty()
}

// TestAllocatorFails has each call of the allocator fail in each way.
func TestAllocatorFails(t *testing.T) {
	for _, f := range []struct {
		what  string
		spoil func([]byte) []byte
		want  error
	}{
		{"none", func([]byte) []byte { return nil }, ib.ENOMEM},
		{"too few bytes", func(b []byte) []byte { return b[:len(b)-1] }, ib.EINVAL},
		{"no byte", func(b []byte) []byte { return b[:0] }, ib.EINVAL},
		{"an odd address", func(b []byte) []byte { return b[1:] }, ib.EINVAL},
		{"an odd address and enough bytes", func(b []byte) []byte { return unsafe.Slice(&b[4], len(b)) }, ib.EINVAL},
	} {
		a := newArena(t)
		a.refuse, a.spoil = 1, f.spoil
		if err := new(Ring[RecvWQE]).Init(a.allocator(), 4, 16); !errors.Is(err, f.want) {
			t.Errorf("a work queue that gets %s: %v, want %v", f.what, err, f.want)
		}
		a.empty()
		for call := 1; call <= 2; call++ {
			a := newArena(t)
			a.refuse, a.spoil = call, f.spoil
			if _, err := NewCQ(a.allocator(), 4, false); !errors.Is(err, f.want) {
				t.Errorf("a completion queue whose block %d is %s: %v, want %v", call, f.what, err, f.want)
			}
			a.empty()
		}
		a = newArena(t)
		a.refuse, a.spoil = 3, f.spoil
		c, err := NewCQ(a.allocator(), 4, false)
		must.Do(t, err)
		c.Push(0, &ib.WC{WRID: 7})
		if err := c.Resize(8); !errors.Is(err, f.want) {
			t.Errorf("a completion queue that gets %s when resized: %v, want %v", f.what, err, f.want)
		}
		var wc [2]ib.WC
		if n := c.Poll(wc[:]); c.Cap() != 7 || n != 1 || wc[0].WRID != 7 {
			t.Errorf("a completion queue that got %s when resized holds %d of %d entries, want 1 of 4", f.what, n, c.Cap())
		}
		c.Free()
		a.empty()
	}
}

// TestNoFree shows that an allocator may keep its memory.
func TestNoFree(t *testing.T) {
	a := newArena(t)
	only := Allocator{Alloc: a.alloc}
	c, err := NewCQ(only, 4, false)
	must.Do(t, err)
	must.Do(t, c.Resize(8))
	c.Free()
	a.refuse, a.spoil = a.given+1, func(b []byte) []byte { return b[:1] }
	if _, err := NewCQ(only, 4, false); !errors.Is(err, ib.EINVAL) {
		t.Errorf("a completion queue of one byte: %v, want EINVAL", err)
	}
	a.check()
}
