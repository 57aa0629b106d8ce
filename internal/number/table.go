package number

// Table finds objects by number, through two levels of arrays.
type Table[T any] struct {
	slot  uint32 // already shifted
	pages [256]*[256]*T
}

// NewTable returns an empty table for the numbers of a slot.
func NewTable[T any](slot uint8) *Table[T] { return &Table[T]{slot: uint32(slot) << 16} }

// Find returns the object with number n, nil if there is none.
func (t *Table[T]) Find(n uint32) *T {
	if n&^0xffff != t.slot {
		return nil
	}
	page := t.pages[n>>8&0xff]
	if page == nil {
		return nil
	}
	return page[n&0xff]
}

// Add stores the object with number n.
func (t *Table[T]) Add(n uint32, x *T) {
	page := &t.pages[n>>8&0xff]
	if *page == nil {
		*page = new([256]*T)
	}
	(*page)[n&0xff] = x
}

// Remove removes the object with number n, which must be in the table.
func (t *Table[T]) Remove(n uint32) { t.pages[n>>8&0xff][n&0xff] = nil }

// Each calls f for every object, in the order of their numbers.
func (t *Table[T]) Each(f func(*T)) {
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
