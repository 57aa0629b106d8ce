package deadline

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/softhca/softhca/internal/clock"
)

// thing is an element of the heaps under test.
type thing struct {
	id   int
	link Link
}

func newHeap() Heap[thing] { return New(func(x *thing) *Link { return &x.link }) }

// TestModel sets, moves and removes elements and takes out what is due, and
// compares all that can be seen with a sorted list.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			x   *thing
			at  clock.Instant
			set int
		}
		h := newHeap()
		h.seq = rapid.SampledFrom([]uint32{0, math.MaxUint32 - 5}).Draw(t, "numbers so far")
		var model []entry
		sets := 0
		things := make([]thing, rapid.IntRange(1, 40).Draw(t, "things"))
		remove := func(x *thing) {
			model = slices.DeleteFunc(model, func(e entry) bool { return e.x == x })
		}
		pick := func(t *rapid.T) *thing { return &things[rapid.IntRange(0, len(things)-1).Draw(t, "thing")] }
		instant := rapid.Custom(func(t *rapid.T) clock.Instant {
			return clock.Instant(rapid.Int64Range(0, 20).Draw(t, "at"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				x, at := pick(t), instant.Draw(t, "instant")
				h.Set(x, at)
				remove(x)
				sets++
				model = append(model, entry{x, at, sets})
			},
			"remove": func(t *rapid.T) {
				x := pick(t)
				h.Remove(x)
				remove(x)
			},
			"due": func(t *rapid.T) {
				now := instant.Draw(t, "now")
				var want *thing
				if len(model) > 0 && model[0].at <= now {
					want = model[0].x
					remove(want)
				}
				if got := h.Due(now); got != want {
					t.Fatalf("due at %v is %+v, want %+v", now, got, want)
				}
			},
			"": func(t *rapid.T) {
				slices.SortFunc(model, func(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.set, b.set)) })
				first := clock.Never
				for i, e := range model {
					if i == 0 {
						first = e.at
					}
					if !h.Has(e.x) || !slices.Contains(h.All(), e.x) || e.x.link.At() != e.at {
						t.Fatalf("an element due at %v is in the heap: %v, due at %v", e.at, h.Has(e.x), e.x.link.At())
					}
				}
				if h.Len() != len(model) || h.Next() != first {
					t.Fatalf("%d elements, the first at %v; want %d and %v", h.Len(), h.Next(), len(model), first)
				}
				if h.Len() > 0 && h.All()[0] != model[0].x {
					t.Fatalf("the first is %+v, want %+v", h.All()[0], model[0].x)
				}
				for i := range things {
					if x := &things[i]; x.link.At() == clock.Never && h.Has(x) {
						t.Fatalf("an element is in the heap and due never")
					}
				}
			},
		})
	})
}

// TestRemovalSiftsUp removes an element so that the last one takes its place in
// another branch, where it belongs above its new parent.
func TestRemovalSiftsUp(t *testing.T) {
	h := newHeap()
	things := make([]thing, 7)
	for i, at := range []clock.Instant{0, 10, 1, 11, 12, 2, 3} { // 11 and 12 are below 10, 2 and 3 below 1
		h.Set(&things[i], at)
	}
	h.Remove(&things[3]) // 3 comes below 10
	last := clock.Instant(-1)
	for x := h.Due(clock.Never); x != nil; x = h.Due(clock.Never) {
		if at := x.link.at; at < last {
			t.Errorf("%v comes after %v", at, last)
		} else {
			last = at
		}
	}
}

// TestOtherHeap shows that a heap does not take an element of another one for
// its own.
func TestOtherHeap(t *testing.T) {
	a, b := newHeap(), newHeap()
	x, y := thing{id: 1}, thing{id: 2}
	a.Set(&x, 5)
	if b.Has(&x) {
		t.Error("an empty heap has an element")
	}
	b.Set(&y, 5)
	if b.Has(&x) || !a.Has(&x) {
		t.Error("the heaps mistake their elements")
	}
	a.Remove(&x)
	if a.Has(&x) || x.link.At() != clock.Never {
		t.Error("an element is there after its removal")
	}
}

// TestNothingIsAllocated shows that a heap that was as large before costs no
// allocation.
func TestNothingIsAllocated(t *testing.T) {
	h := newHeap()
	things := make([]thing, 100)
	if n := testing.AllocsPerRun(100, func() {
		for i := range things {
			h.Set(&things[i], clock.Instant(i*7%13))
		}
		for i := range things {
			h.Set(&things[i], clock.Instant(i*5%11))
		}
		h.Remove(&things[50])
		for h.Due(clock.Never) != nil {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSetAndDue(b *testing.B) {
	h := newHeap()
	things := make([]thing, 1000)
	for i := range things {
		h.Set(&things[i], clock.Instant(i*7919%1000))
	}
	b.ReportAllocs()
	for now := clock.Instant(0); b.Loop(); now++ {
		h.Set(h.Due(clock.Never), now+1000+now*31%997)
	}
}
