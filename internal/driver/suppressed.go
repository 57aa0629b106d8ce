package driver

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/shard"
)

// maxSuppressed bounds the number of queue pairs with suppressed doorbells.
const maxSuppressed = 64

// suppressed holds the queue pairs with waiting posts whose producers need not ring the
// doorbell for more: for a producer outside Go the call is expensive. The driver's
// lock guards it.
type suppressed []sparing

type sparing struct {
	q    *qp.QP
	send *ring.Header
	prod uint32 // producer index at the last look
}

// add suppresses the doorbell of q.
func (s *suppressed) add(q *qp.QP) {
	if len(*s) == maxSuppressed {
		return
	}
	send, _ := q.Queues()
	if prod, first := send.SuppressDoorbell(); first {
		*s = append(*s, sparing{q, send, prod})
	}
}

// posted returns the number of queues with posts without a doorbell since its last
// call.
func (s suppressed) posted() (queues int) {
	for i := range s {
		if prod := s[i].send.Prod.Load(); prod != s[i].prod {
			s[i].prod = prod
			queues++
		}
	}
	return queues
}

// end enables all doorbells again, and makes the shard process the posts without one.
func (s *suppressed) end(now clock.Instant, shard *shard.Shard) {
	for _, p := range *s {
		p.send.WantDoorbell()
		shard.Doorbell(now, p.q)
	}
	clear(*s)
	*s = (*s)[:0]
}
