package number

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPoolIsExhausted takes all numbers of a slot, then frees them one by one: a freed
// number is drawn again after Rest later ones, not earlier, and 0, 1 and the number of
// multicast never.
func TestPoolIsExhausted(t *testing.T) {
	const slot = 0xff
	p, next := NewPool(slot), uint32(0)
	inTurn := func() uint32 { next += 8; return next } // Draw tries the eight numbers from there
	var all []uint32
	for n, ok := p.Draw(inTurn); ok; n, ok = p.Draw(inTurn) {
		p.Take(n)
		all = append(all, n)
	}
	if len(all) != 1<<16-3 {
		t.Fatalf("%d numbers are drawn of a slot, want all but 3", len(all))
	}
	for i, n := range all {
		p.Free(n)
		again, ok := p.Draw(inTurn)
		switch want := i >= Rest; {
		case ok != want:
			t.Fatalf("after %d numbers are freed one can be drawn: %t", i+1, ok)
		case ok && again != all[i-Rest]:
			t.Fatalf("drawn %#x, want %#x, which has rested longest", again, all[i-Rest])
		case ok:
			p.Take(again)
		}
	}
	slices.Sort(all)
	if all[0] != slot<<16|2 || all[len(all)-1] != slot<<16|0xfffe || len(slices.Compact(all)) != 1<<16-3 {
		t.Errorf("drawn are %#x to %#x, and some twice", all[0], all[len(all)-1])
	}
}

// TestPoolGivesAllNumbers shows that a pool gives all its numbers, the last ones too.
func TestPoolGivesAllNumbers(t *testing.T) {
	for seed := range uint64(3) {
		p, r := NewPool(1), rand.New(rand.NewPCG(seed, 16))
		taken := 0
		for n, ok := p.Draw(r.Uint32); ok; n, ok = p.Draw(r.Uint32) {
			p.Take(n)
			taken++
		}
		if taken != 1<<16-2 {
			t.Errorf("seed %d: %d numbers are drawn, want all but 0 and 1", seed, taken)
		}
	}
}

// TestTable finds objects by their numbers only, also in other slots.
func TestTable(t *testing.T) {
	tab := NewTable[int](3)
	numbers := []uint32{3<<16 | 2, 3<<16 | 0x1ff, 3<<16 | 0x200, 3<<16 | 0xffff}
	values := []int{0, 1, 2, 3}
	for i, n := range numbers {
		tab.Add(n, &values[i])
	}
	tab.Remove(numbers[2])
	for i, n := range numbers {
		if got := tab.Find(n); (got != nil) != (i != 2) || got != nil && *got != i {
			t.Errorf("%#x finds %v", n, got)
		}
		for _, other := range []uint32{n ^ 1<<16, n ^ 1<<23, n ^ 1<<24, n ^ 1} {
			if tab.Find(other) != nil {
				t.Errorf("%#x finds the object of %#x", other, n)
			}
		}
	}
	var seen []int
	tab.Each(func(x *int) { seen = append(seen, *x) })
	if !slices.Equal(seen, []int{0, 1, 3}) {
		t.Errorf("the table has the objects %v, want 0, 1, 3 in order", seen)
	}
}
