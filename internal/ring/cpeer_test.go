//go:build cgo

package ring_test

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/ring/cpeer"
)

// TestCReaders has threads of C, which never enter Go, poll a completion
// queue together with Go: while entries come, are removed and move to other
// memory, every entry is taken once or was removed, and the mark of overflow
// is seen.
//
// On a machine under load the readers in C may not run while entries come. So
// the test waits for them a few times while there are no readers in Go.
func TestCReaders(t *testing.T) {
	const slices = 30
	for seed := range uint64(3) {
		var m cpeer.Memory
		c := newChurn(t, m.Allocator(), seed)
		board := cpeer.NewBoard(&m)
		c.onGone = board.Removed
		var readers []*cpeer.Reader
		inC := 0
		for range 2 {
			r := cpeer.StartReader(c.cq.Header(), board, 2*churnTotal)
			if r == nil {
				t.Fatal("no memory or thread for a reader")
			}
			readers = append(readers, r)
		}
		for range slices {
			c.run(churnTotal / 2 / slices)
			c.drained()
		}
		c.read()
		c.read()
		c.run(churnTotal / 2)
		c.overflow()
		for _, r := range readers {
			for !r.Overflowed() {
				runtime.Gosched()
			}
		}
		c.join()
		for _, r := range readers {
			var got []entry
			for _, e := range r.Stop() {
				got = append(got, entry{e.QPN, e.WRID, e.Late})
			}
			inC += len(got)
			c.taken = append(c.taken, got)
		}
		if inC < slices {
			t.Errorf("the readers in C took %d entries, want at least one each of %d times", inC, slices)
		}
		c.check()
		c.cq.Free()
		board.Free(&m)
		if m.Live() != 0 {
			t.Errorf("%d blocks were not given back", m.Live())
		}
	}
}

// drained adds an entry if there is none, and returns when the readers have
// taken all.
func (c *churn) drained() {
	if c.cq.Pending() == 0 {
		c.push(0)
	}
	for c.cq.Pending() != 0 {
		runtime.Gosched()
	}
}

// TestLockWorksFromBothSides counts in C and in Go with a queue's lock held:
// no step is lost.
func TestLockWorksFromBothSides(t *testing.T) {
	const each = 20_000
	var m cpeer.Memory
	c, err := ring.NewCQ(m.Allocator(), 4, false)
	must.Do(t, err)
	h, mem := c.Header(), m.Alloc(8)
	counter := (*uint64)(unsafe.Pointer(unsafe.SliceData(mem)))
	var threads sync.WaitGroup
	for range 2 {
		threads.Go(func() { cpeer.LockedAdd(h, counter, each) })
		threads.Go(func() {
			for range each {
				for !h.Lock.CompareAndSwap(0, 1) {
					runtime.Gosched()
				}
				*counter++
				h.Lock.Store(0)
			}
		})
	}
	threads.Wait()
	if *counter != 4*each {
		t.Errorf("counted to %d with the lock held, want %d", *counter, 4*each)
	}
	m.Free(mem)
	c.Free()
}

// TestCProducer has a thread of C write work queues that Go consumes at the
// same time.
func TestCProducer(t *testing.T) {
	const total = 10_000
	consume(t, total, false, ring.SGERoom(2)+ring.SendToSize, cpeer.Send)
	consume(t, total, true, ring.SGERoom(1), cpeer.Recv)
}

// consume compares what a producer in C writes with what entry i is to be.
func consume[T comparable](t *testing.T, total uint64, receives bool, room uint32, want func(i uint64) (T, ib.SGE)) {
	t.Helper()
	var m cpeer.Memory
	var mem []byte
	var r ring.Ring[T]
	a := ring.Allocator{Alloc: func(n int) []byte { mem = m.Alloc(n); return mem }, Free: m.Free}
	must.Do(t, r.Init(a, 128, room))
	p := cpeer.StartProducer((*ring.Header)(unsafe.Pointer(unsafe.SliceData(mem))), receives, int(total))
	if p == nil {
		t.Fatal("no memory or thread for a producer")
	}
	for i := range total {
		n, ok := r.Len()
		for ; n == 0; n, ok = r.Len() {
			runtime.Gosched()
		}
		e, sge := want(i)
		if got := r.SGEs(r.Cons(), 1)[0]; !ok || *r.At(r.Cons()) != e || got != sge {
			t.Fatalf("entry %d is %+v with %+v, C wrote %+v with %+v", i, *r.At(r.Cons()), got, e, sge)
		}
		r.Retire()
		r.Release()
	}
	p.Join()
	r.Free()
	if m.Live() != 0 {
		t.Errorf("%d blocks were not given back", m.Live())
	}
}
