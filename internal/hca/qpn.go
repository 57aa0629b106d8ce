package hca

import (
	"github.com/softhca/softhca/ib"
)

// numberRest is the number of later frees after which a freed number may be
// used again, so that late packets of an old connection find no queue pair
// (V13).
const numberRest = 2048

// numberTable finds QPs, or EE contexts, by number: an 8-bit slot that all
// numbers of an adapter share, then 16 random bits through two levels of arrays.
type numberTable[T any] struct {
	slot   uint32 // already shifted
	n      int    // in the table
	pages  [256]*[256]*T
	rest   [numberRest]uint32 // ring of freed numbers in quarantine
	freed  int
	inRest map[uint32]struct{}
}

func (t *numberTable[T]) init(slot uint8) {
	t.slot = uint32(slot) << 16
	t.inRest = make(map[uint32]struct{})
}

// find returns the object with number n, nil if there is none.
func (t *numberTable[T]) find(n uint32) *T {
	if n&^0xffff != t.slot {
		return nil
	}
	page := t.pages[n>>8&0xff]
	if page == nil {
		return nil
	}
	return page[n&0xff]
}

// alloc draws a number that is neither in use nor in quarantine, nor 0 or 1.
func (t *numberTable[T]) alloc(rand func() uint32) (uint32, bool) {
	n := rand() & 0xffff
	for range 1 << 16 {
		full := t.slot | n
		if _, resting := t.inRest[full]; n > 1 && !resting && t.find(full) == nil && full != uint32(ib.QPNMulticast) {
			return full, true
		}
		n = (n + 1) & 0xffff
		if n&7 == 0 { // redraw, so as not to search a crowded range in order
			n = rand() & 0xffff
		}
	}
	return 0, false
}

func (t *numberTable[T]) add(n uint32, x *T) {
	page := &t.pages[n>>8&0xff]
	if *page == nil {
		*page = new([256]*T)
	}
	(*page)[n&0xff] = x
	t.n++
}

// each calls f for every object.
func (t *numberTable[T]) each(f func(*T)) {
	for _, page := range t.pages {
		if page == nil {
			continue
		}
		for _, x := range page {
			if x != nil {
				f(x)
			}
		}
	}
}

func (t *numberTable[T]) remove(n uint32) {
	t.pages[n>>8&0xff][n&0xff] = nil
	t.n--
	i := t.freed % numberRest
	if t.freed >= numberRest {
		delete(t.inRest, t.rest[i])
	}
	t.rest[i] = n
	t.inRest[n] = struct{}{}
	t.freed++
}
