package hca

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/qp"
)

// doorbells is a list of QPs to which work was posted. Any goroutine rings;
// the shard's thread answers.
type doorbells struct{ head atomic.Pointer[qp.QP] }

// ring puts q on the list, unless it is on it.
func (d *doorbells) ring(q *qp.QP) {
	if q.Doorbells.Rung.Swap(true) {
		return
	}
	for {
		head := d.head.Load()
		q.Doorbells.Next = head
		if d.head.CompareAndSwap(head, q) {
			return
		}
	}
}

// pending reports whether somebody rang.
func (d *doorbells) pending() bool { return d.head.Load() != nil }

// answer calls f for every QP on the list, in the order in which they rang. A
// ring during the call is kept for the next.
func (d *doorbells) answer(f func(*qp.QP)) {
	var first *qp.QP
	for q := d.head.Swap(nil); q != nil; {
		next := q.Doorbells.Next
		q.Doorbells.Next, first = first, q
		q = next
	}
	for q := first; q != nil; {
		next := q.Doorbells.Next
		q.Doorbells.Next = nil
		q.Doorbells.Rung.Store(false)
		f(q)
		q = next
	}
}
