package gsi

import (
	"cmp"
	"slices"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
)

// table holds the unanswered requests: by the key of their answer, and by due
// time.
type table struct {
	max   int
	made  uint64 // transactions ever added
	byKey map[key]*Transaction
	byDue deadline.Heap[Transaction]
}

func (t *table) init(limit int) {
	t.max = limit
	t.byKey = make(map[key]*Transaction)
	t.byDue = deadline.New(func(x *Transaction) *deadline.Link { return &x.timer })
}

// admits returns an error if a transaction may not be added.
func (t *table) admits(x *Transaction) error {
	switch {
	case t.byKey[x.key] != nil:
		return ErrDuplicate
	case t.byDue.Len() >= t.max:
		return ErrTooManyTransactions
	}
	return nil
}

func (t *table) add(x *Transaction, at clock.Instant) {
	x.seq = t.made
	t.made++
	t.byKey[x.key] = x
	t.byDue.Set(x, at)
}

// remove removes x and reports false if it was not in the table.
func (t *table) remove(x *Transaction) bool {
	if t.byKey[x.key] != x {
		return false
	}
	delete(t.byKey, x.key)
	t.byDue.Remove(x)
	return true
}

// of returns an agent's transactions, oldest first.
func (t *table) of(a *Agent) []*Transaction {
	var own []*Transaction
	for _, x := range t.byDue.All() {
		if x.agent == a {
			own = append(own, x)
		}
	}
	slices.SortFunc(own, func(x, y *Transaction) int { return cmp.Compare(x.seq, y.seq) })
	return own
}
