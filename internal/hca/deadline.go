package hca

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// deadlines is a heap of QPs by a key that is not later than their deadline.
// A deadline that moves away, as a retry timer does with each
// acknowledgement, costs nothing: the QP is found early and put back.
type deadlines struct{ heap []*qp.QP }

// next returns the earliest key.
func (d *deadlines) next() clock.Instant {
	if len(d.heap) == 0 {
		return clock.Never
	}
	return d.heap[0].Links.HeapKey
}

// arm makes sure that q is found at its deadline.
func (d *deadlines) arm(q *qp.QP) {
	at := q.Deadline()
	if at == clock.Never {
		return
	}
	l := &q.Links
	if l.HeapIndex == 0 {
		l.HeapKey = at
		d.heap = append(d.heap, q)
		l.HeapIndex = len(d.heap)
		d.up(len(d.heap))
		return
	}
	if at < l.HeapKey {
		l.HeapKey = at
		d.up(l.HeapIndex)
	}
}

// due removes and returns a QP whose key has come.
func (d *deadlines) due(now clock.Instant) *qp.QP {
	if d.next() > now {
		return nil
	}
	q := d.heap[0]
	d.remove(q)
	return q
}

// remove takes q out, if it is in.
func (d *deadlines) remove(q *qp.QP) {
	i := q.Links.HeapIndex
	if i == 0 {
		return
	}
	last := len(d.heap)
	d.swap(i, last)
	d.heap[last-1] = nil
	d.heap = d.heap[:last-1]
	q.Links.HeapIndex = 0
	if i < last {
		d.down(i)
		d.up(i)
	}
}

// Positions run from 1, so that the zero Links is in no heap.

func (d *deadlines) less(i, j int) bool {
	return d.heap[i-1].Links.HeapKey < d.heap[j-1].Links.HeapKey
}

func (d *deadlines) swap(i, j int) {
	h := d.heap
	h[i-1], h[j-1] = h[j-1], h[i-1]
	h[i-1].Links.HeapIndex, h[j-1].Links.HeapIndex = i, j
}

func (d *deadlines) up(i int) {
	for ; i > 1 && d.less(i, i/2); i /= 2 {
		d.swap(i, i/2)
	}
}

func (d *deadlines) down(i int) {
	for {
		c := 2 * i
		if c > len(d.heap) {
			return
		}
		if c < len(d.heap) && d.less(c+1, c) {
			c++
		}
		if !d.less(c, i) {
			return
		}
		d.swap(i, c)
		i = c
	}
}
