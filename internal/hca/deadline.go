package hca

import (
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/qp"
)

// deadlines is a heap of QPs by an instant that is not later than their
// deadline. A deadline that moves away, as a retry timer does with each
// acknowledgement, costs nothing: the QP is found early and put back.
type deadlines struct{ deadline.Heap[qp.QP] }

func newDeadlines() deadlines {
	return deadlines{deadline.New(func(q *qp.QP) *deadline.Link { return &q.Links.Timer })}
}

// arm makes sure that q is found at its deadline.
func (d *deadlines) arm(q *qp.QP) {
	if at := q.Deadline(); at < q.Links.Timer.At() {
		d.Set(q, at)
	}
}
