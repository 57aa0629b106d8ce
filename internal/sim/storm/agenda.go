package storm

import "github.com/softhca/softhca/internal/clock"

// agenda is a heap of things by their instant. Those of one instant come in
// the order in which they were added.
type agenda[T any] struct {
	heap []entry[T]
	seq  uint64
}

type entry[T any] struct {
	at  clock.Instant
	seq uint64
	v   T
}

func (a entry[T]) before(b entry[T]) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// next returns when the first thing is; clock.Never if there is none.
func (g *agenda[T]) next() clock.Instant {
	if len(g.heap) == 0 {
		return clock.Never
	}
	return g.heap[0].at
}

func (g *agenda[T]) len() int { return len(g.heap) }

func (g *agenda[T]) add(at clock.Instant, v T) {
	h := append(g.heap, entry[T]{at, g.seq, v})
	g.seq++
	for i := len(h) - 1; i > 0 && h[i].before(h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	g.heap = h
}

// pop removes the first thing; there must be one.
func (g *agenda[T]) pop() T {
	h, last := g.heap, len(g.heap)-1
	top := h[0].v
	h[0], h[last] = h[last], entry[T]{}
	h = h[:last]
	for i, c := 0, 1; c < last; c = 2*i + 1 {
		if c+1 < last && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	g.heap = h
	return top
}
