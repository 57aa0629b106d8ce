package verbs

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

// ModifyToRTS walks the QP from RESET through INIT and RTR to RTS. Each
// move is given those attributes of attr that the modify table requires for
// the service: for RC the port, P_Key index and access flags; then the
// address vector, path MTU, destination QPN, RQPSN, MaxDestRDAtomic and
// MinRNRTimer; then the timeout, the retry counts, SQPSN and MaxRDAtomic. It
// stops at the first move that is refused and returns Modify's error; the QP
// stays where it is.
func (q *QP) ModifyToRTS(attr QPAttr) error {
	if err := q.object().Usable(errDestroyed); err != nil {
		return err
	}
	from := ib.RESET
	for _, to := range [...]ib.QPState{ib.INIT, ib.RTR, ib.RTS} {
		required, _, _ := qp.Transition(q.Type(), from, to)
		attr.State = to
		if err := q.Modify(&attr, required|ib.AttrState); err != nil {
			return err
		}
		from = to
	}
	return nil
}
