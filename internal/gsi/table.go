package gsi

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/softhca/softhca/internal/clock"
)

// table holds the requests that wait: by what answers them, and by when they
// are due.
type table struct {
	max   int
	made  uint64 // transactions ever added
	byKey map[key]*Transaction
	byDue dueHeap
}

func (t *table) init(limit int) {
	t.max = limit
	t.byKey = make(map[key]*Transaction)
}

// admits returns why a transaction may not be added, nil if it may.
func (t *table) admits(x *Transaction) error {
	switch {
	case t.byKey[x.key] != nil:
		return ErrDuplicate
	case len(t.byDue) >= t.max:
		return ErrTooManyTransactions
	}
	return nil
}

func (t *table) add(x *Transaction, at clock.Instant) {
	x.at, x.seq = at, t.made
	t.made++
	t.byKey[x.key] = x
	heap.Push(&t.byDue, x)
}

func (t *table) remove(x *Transaction) {
	delete(t.byKey, x.key)
	heap.Remove(&t.byDue, x.index)
}

// move makes x due at another time.
func (t *table) move(x *Transaction, at clock.Instant) {
	x.at = at
	heap.Fix(&t.byDue, x.index)
}

// next returns when the first is due.
func (t *table) next() clock.Instant {
	if len(t.byDue) == 0 {
		return clock.Never
	}
	return t.byDue[0].at
}

// due returns one whose time has come, nil if there is none.
func (t *table) due(now clock.Instant) *Transaction {
	if t.next() > now {
		return nil
	}
	return t.byDue[0]
}

// of returns an agent's transactions, oldest first.
func (t *table) of(a *Agent) []*Transaction {
	var own []*Transaction
	for _, x := range t.byDue {
		if x.agent == a {
			own = append(own, x)
		}
	}
	slices.SortFunc(own, func(x, y *Transaction) int { return cmp.Compare(x.seq, y.seq) })
	return own
}

// dueHeap is a heap of transactions for container/heap; those that are due
// together come in the order in which they were made.
type dueHeap []*Transaction

// Len returns the number of transactions.
func (h dueHeap) Len() int { return len(h) }

// Less orders by time, then by age.
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

// Swap exchanges two transactions.
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push adds a *Transaction at the end.
func (h *dueHeap) Push(x any) {
	t := x.(*Transaction)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop removes the last one.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	t.index = -1
	return t
}
