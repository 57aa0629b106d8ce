package deadline

import "github.com/softhca/softhca/internal/clock"

// Link is an element's state in a heap. The zero value is in none. An element
// can be in one heap at a time for each of its Links.
type Link struct {
	at  clock.Instant
	seq uint32 // order among elements due at the same instant
	pos int32  // from 1; 0: in no heap
}

// At returns when the element is due; clock.Never if it is in no heap.
func (l *Link) At() clock.Instant {
	if l.pos == 0 {
		return clock.Never
	}
	return l.at
}

// Heap holds elements by the instant at which they are due. Elements due at the
// same instant come in the order of their Set calls. A heap must be made by New
// and is not safe for concurrent use.
type Heap[T any] struct {
	link func(*T) *Link
	all  []*T
	seq  uint32
}

// New returns an empty heap; link returns the Link of an element.
func New[T any](link func(*T) *Link) Heap[T] { return Heap[T]{link: link} }

// Len returns the number of elements.
func (h *Heap[T]) Len() int { return len(h.all) }

// All returns the elements: the one due first, then the others in no particular
// order. The list belongs to the heap and is valid until it changes.
func (h *Heap[T]) All() []*T { return h.all }

// Has reports whether x is in this heap.
func (h *Heap[T]) Has(x *T) bool {
	i := int(h.link(x).pos)
	return i != 0 && i <= len(h.all) && h.all[i-1] == x
}

// Next returns when the first element is due; clock.Never if there is none.
func (h *Heap[T]) Next() clock.Instant {
	if len(h.all) == 0 {
		return clock.Never
	}
	return h.link(h.all[0]).at
}

// Due removes and returns the first element if it is due, nil if none is.
func (h *Heap[T]) Due(now clock.Instant) *T {
	if len(h.all) == 0 || h.Next() > now {
		return nil
	}
	x := h.all[0]
	h.Remove(x)
	return x
}

// Set makes x due at an instant, and adds it if necessary. x must not be in
// another heap.
func (h *Heap[T]) Set(x *T, at clock.Instant) {
	l := h.link(x)
	if l.pos == 0 {
		h.all = append(h.all, x)
		l.pos = int32(len(h.all))
	}
	h.seq++
	l.at, l.seq = at, h.seq
	h.sift(int(l.pos))
}

// Remove removes x from the heap if it is in one, which must be this heap.
func (h *Heap[T]) Remove(x *T) {
	i, last := int(h.link(x).pos), len(h.all)
	if i == 0 {
		return
	}
	h.swap(i, last)
	h.all[last-1] = nil
	h.all = h.all[:last-1]
	h.link(x).pos = 0
	if i < last {
		h.sift(i)
	}
}

// Positions run from 1, so that the zero Link is in no heap.

// sift moves the element at i up or down to its proper position.
func (h *Heap[T]) sift(i int) {
	for ; i > 1 && h.before(i, i/2); i /= 2 {
		h.swap(i, i/2)
	}
	for c := 2 * i; c <= len(h.all); c = 2 * i {
		if c < len(h.all) && h.before(c+1, c) {
			c++
		}
		if !h.before(c, i) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

// before compares two elements. The sequence numbers of two elements due at the
// same instant are close enough that their difference does not overflow.
func (h *Heap[T]) before(i, j int) bool {
	a, b := h.link(h.all[i-1]), h.link(h.all[j-1])
	return a.at < b.at || a.at == b.at && int32(a.seq-b.seq) < 0
}

func (h *Heap[T]) swap(i, j int) {
	h.all[i-1], h.all[j-1] = h.all[j-1], h.all[i-1]
	h.link(h.all[i-1]).pos, h.link(h.all[j-1]).pos = int32(i), int32(j)
}
