package ring

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

func TestSize(t *testing.T) {
	for n, want := range map[uint32]uint32{0: 1, 1: 1, 2: 2, 3: 4, 16: 16, 17: 32, 1<<31 - 1: 1 << 31, 1 << 31: 1 << 31} {
		if got := Size(n); got != want {
			t.Errorf("a ring for %d entries gets %d, want %d", n, got, want)
		}
	}
}

func TestInitRefuses(t *testing.T) {
	for _, n := range []int{0, 3, 12} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a ring of %d entries is accepted", n)
				}
			}()
			var r Ring[int]
			r.Init(make([]int, n))
		}()
	}
}

// TestModel compares a ring with a slice, from indices that soon wrap at
// 2^32.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := uint32(1) << rapid.IntRange(0, 4).Draw(t, "log2 size")
		var r Ring[uint32]
		r.Init(make([]uint32, size))
		first := rapid.SampledFrom([]uint32{0, 1<<32 - 3, 1 << 31}).Draw(t, "first index")
		r.prod.Store(first)
		r.cons.Store(first)
		var model []uint32
		next := uint32(0)
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				if r.Full() {
					t.Skip("full") // rapid draws another action
				}
				*r.Next() = next
				r.Publish()
				model = append(model, next)
				next++
			},
			"release": func(t *rapid.T) {
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				r.Release(uint32(n))
				model = model[n:]
			},
			"reset": func(*rapid.T) {
				r.Reset()
				model = nil
			},
			"": func(t *rapid.T) {
				if r.Len() != uint32(len(model)) || r.Prod()-r.Cons() != r.Len() || r.Cap() != size {
					t.Fatalf("length %d of %d, indices %d to %d; want %d of %d", r.Len(), r.Cap(), r.Cons(), r.Prod(), len(model), size)
				}
				if r.Full() != (len(model) == int(size)) {
					t.Fatalf("full is %v with %d of %d", r.Full(), len(model), size)
				}
				for i, want := range model {
					at := r.Cons() + uint32(i)
					if got := *r.At(at); got != want || r.buf[r.Slot(at)] != want {
						t.Fatalf("entry %d is %d, in its slot %d; want %d", at, got, r.buf[r.Slot(at)], want)
					}
				}
			},
		})
	})
}

// TestTwoThreads shows under the race detector that one producer and one
// consumer need no lock, and that nothing is lost between them.
func TestTwoThreads(t *testing.T) {
	const total = 20_000
	var r Ring[uint32]
	r.Init(make([]uint32, 8))
	stop, done := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-done }()
	go func() {
		defer close(done)
		for i := uint32(0); i < total; {
			select {
			case <-stop:
				return
			default:
			}
			if r.Full() {
				runtime.Gosched()
				continue
			}
			*r.Next() = i
			r.Publish()
			i++
		}
	}()
	for want := uint32(0); want < total; {
		if r.Len() == 0 {
			runtime.Gosched()
			continue
		}
		if got := *r.At(r.Cons()); got != want {
			t.Fatalf("consumed %d, want %d", got, want)
		}
		r.Release(1)
		want++
	}
}

func TestNoAllocation(t *testing.T) {
	var r Ring[SendWQE]
	r.Init(make([]SendWQE, 4))
	if n := testing.AllocsPerRun(100, func() {
		r.Next().WRID = 7
		r.Publish()
		r.Release(1)
	}); n != 0 {
		t.Errorf("an entry costs %v allocations", n)
	}
}

func BenchmarkPublishRelease(b *testing.B) {
	var r Ring[SendWQE]
	r.Init(make([]SendWQE, 64))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Next().WRID = uint64(i)
		r.Publish()
		r.Release(1)
	}
}
