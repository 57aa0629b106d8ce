package adapter

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/verbs"
)

// Move moves a queue pair through states, each with those of the attributes that
// the move requires.
func Move(q *verbs.QP, attr ib.QPAttr, states ...ib.QPState) error {
	for _, to := range states {
		// Of a move that there is not, Modify says so.
		required, _, _ := qp.Transition(q.Type(), q.State(), to)
		attr.State = to
		if err := q.Modify(&attr, required|ib.AttrState); err != nil {
			return fmt.Errorf("modify to %v: %w", to, err)
		}
	}
	return nil
}
