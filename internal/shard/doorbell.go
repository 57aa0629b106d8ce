package shard

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/qp"
)

// doorbells is a list of QPs to which work was posted. Any goroutine may add
// one; the shard's thread empties the list.
type doorbells struct{ head atomic.Pointer[qp.QP] }

// ring puts q on the list, unless it is already there.
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

// pending reports whether the list is not empty.
func (d *doorbells) pending() bool { return d.head.Load() != nil }

// answer calls f for every QP on the list, in the order in which they rang. QPs
// that ring during the call wait for the next one.
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
