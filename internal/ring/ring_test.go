package ring

import (
	"errors"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// newRing returns an empty queue whose next index is first.
func newRing(t testing.TB, a Allocator, n, first uint32) *Ring[RecvWQE] {
	r := &Ring[RecvWQE]{}
	must.Do(t, r.Init(a, n, SGERoom(1)))
	r.hdr.Prod.Store(first)
	r.Reset()
	return r
}

// TestModel compares a work queue with a slice, from indices that soon wrap at
// 2^32.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := uint32(1) << rapid.IntRange(0, 4).Draw(rt, "log2 size")
		first := rapid.SampledFrom([]uint32{0, 1<<32 - 3, 1 << 31}).Draw(rt, "first index")
		a := newArena(t)
		r := newRing(t, a.allocator(), size, first)
		var model []uint64
		next := uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				if r.Full(r.Prod()) {
					t.Skip("full") // rapid draws another action
				}
				*r.At(r.Prod()) = RecvWQE{WRID: next, NumSGE: 1}
				r.SGEs(r.Prod(), 1)[0].Addr = ^next
				r.Publish(r.Prod() + 1)
				model = append(model, next)
				next++
			},
			"release": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty") // rapid draws another action
				}
				r.Retire()
				r.Release()
				model = model[1:]
			},
			"reset": func(*rapid.T) {
				r.Reset()
				model = nil
			},
			"resize": func(t *rapid.T) {
				n := uint32(rapid.IntRange(0, 20).Draw(t, "n"))
				before := *r
				switch err := r.Resize(n); {
				case Size(n) < uint32(len(model)):
					if !errors.Is(err, ib.EINVAL) || !r.same(&before) {
						t.Fatalf("resize to %d with %d in use: %v", n, len(model), err)
					}
				case err != nil:
					t.Fatalf("resize to %d with %d in use: %v", n, len(model), err)
				default:
					size = Size(n)
				}
				a.check()
			},
			"": func(t *rapid.T) {
				n, ok := r.Len()
				if !ok || n != uint32(len(model)) || r.Prod()-r.Cons() != n || r.Cap() != size || r.hdr.Cons.Load() != r.Cons() {
					t.Fatalf("length %d of %d, indices %d to %d; want %d of %d", n, r.Cap(), r.Cons(), r.Prod(), len(model), size)
				}
				if r.Full(r.Prod()) != (len(model) == int(size)) {
					t.Fatalf("full is %v with %d of %d", r.Full(r.Prod()), len(model), size)
				}
				if r.Idle(r.Prod()) != (len(model) == 0) {
					t.Fatalf("idle is %v with %d in use", r.Idle(r.Prod()), len(model))
				}
				for i, want := range model {
					at := r.Cons() + uint32(i)
					if e, sge := r.At(at), r.SGEs(at, 1)[0]; e.WRID != want || sge.Addr != ^want || r.Slot(at) != at%size {
						t.Fatalf("entry %d is %+v with %+v in slot %d; want %d", at, *e, sge, r.Slot(at), want)
					}
				}
			},
		})
		r.Free()
		a.empty()
	})
}

// same reports whether a queue has the memory and the indices of another.
func (r *Ring[T]) same(as *Ring[T]) bool {
	return r.hdr == as.hdr && r.base == as.base && r.mask == as.mask && r.stride == as.stride && r.cons == as.cons && r.first == as.first
}

// TestResizeRefused shows that a queue whose producer's index is invalid, or for which there is
// no memory, keeps its entries.
func TestResizeRefused(t *testing.T) {
	a := newArena(t)
	r := newRing(t, a.allocator(), 4, 0)
	before := *r
	r.alloc = Allocator{Alloc: func(int) []byte { return nil }}
	must.Fail(t, r.Resize(8), ib.ENOMEM, "resize without memory")
	r.alloc = a.allocator()
	r.hdr.Prod.Store(5)
	must.Fail(t, r.Resize(8), ib.EINVAL, "resize a queue of 4 with 5 entries in use")
	if !r.same(&before) || r.hdr.Mask != 3 {
		t.Errorf("a refused resize changes the queue from %+v to %+v", before, *r)
	}
	r.Free()
	a.empty()
}

// TestTwoThreads shows under the race detector that one producer and one
// consumer need no lock, and that nothing is lost between them.
func TestTwoThreads(t *testing.T) {
	const total = 20_000
	r := newRing(t, Allocator{}, 8, 1<<32-total/2)
	stop, done := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-done }()
	go func() {
		defer close(done)
		for i := uint64(0); i < total; {
			select {
			case <-stop:
				return
			default:
			}
			if r.Full(r.Prod()) {
				runtime.Gosched()
				continue
			}
			r.At(r.Prod()).WRID = i
			r.SGEs(r.Prod(), 1)[0].Addr = i
			r.Publish(r.Prod() + 1)
			i++
		}
	}()
	for want := uint64(0); want < total; {
		if n, _ := r.Len(); n == 0 {
			runtime.Gosched()
			continue
		}
		if e, sge := r.At(r.Cons()), r.SGEs(r.Cons(), 1)[0]; e.WRID != want || sge.Addr != want {
			t.Fatalf("consumed %d with element %d, want %d", e.WRID, sge.Addr, want)
		}
		r.Retire()
		r.Release()
		want++
	}
}

func TestNoAllocation(t *testing.T) {
	r := newRing(t, Allocator{}, 4, 0)
	if n := testing.AllocsPerRun(100, func() {
		r.At(r.Prod()).WRID = 7
		r.Publish(r.Prod() + 1)
		r.Retire()
		r.Release()
	}); n != 0 {
		t.Errorf("an entry costs %v allocations", n)
	}
}

func BenchmarkPublishRelease(b *testing.B) {
	r := newRing(b, Allocator{}, 64, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.At(r.Prod()).WRID = uint64(i)
		r.Publish(r.Prod() + 1)
		r.Retire()
		r.Release()
	}
}
