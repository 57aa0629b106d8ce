package shard

import (
	"testing"

	"github.com/softhca/softhca/internal/qp"
)

// TestDoorbellDuringAnswer rings for a QP whose doorbell is being answered:
// the work that was posted then is not part of the answer, so the doorbell
// stays.
func TestDoorbellDuringAnswer(t *testing.T) {
	var d doorbells
	var a, b qp.QP
	d.ring(&a)
	d.ring(&b)
	d.ring(&a)
	var answered []*qp.QP
	d.answer(func(q *qp.QP) {
		answered = append(answered, q)
		if q == &a {
			d.ring(q)
		}
	})
	if len(answered) != 2 || answered[0] != &a || answered[1] != &b {
		t.Errorf("%d answers to doorbells of two QPs, want one each in the order in which they rang", len(answered))
	}
	answered = nil
	d.answer(func(q *qp.QP) { answered = append(answered, q) })
	if len(answered) != 1 || answered[0] != &a || d.pending() {
		t.Errorf("%d answers to a doorbell that rang while it was answered, want 1", len(answered))
	}
}
