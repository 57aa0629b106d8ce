package driver

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
)

// mostSpared bounds the queue pairs whose producers are spared the doorbell at once.
const mostSpared = 64

// spared are the queue pairs with posts that wait whose producers need not ring
// the doorbell for more: one outside Go has a long way to it. It is guarded by the
// driver's lock.
type spared []sparing

type sparing struct {
	q    *qp.QP
	send *ring.Header
	prod uint32 // that was published next when this was last looked at
}

// add spares the producer of q the doorbell.
func (s *spared) add(q *qp.QP) {
	if len(*s) == mostSpared {
		return
	}
	send, _ := q.Queues()
	if prod, first := send.SpareDoorbell(); first {
		*s = append(*s, sparing{q, send, prod})
	}
}

// posted returns to how many of the queues something was posted without a doorbell
// since it was last asked.
func (s spared) posted() (queues int) {
	for i := range s {
		if prod := s[i].send.Prod.Load(); prod != s[i].prod {
			s[i].prod = prod
			queues++
		}
	}
	return queues
}

// end wants all doorbells rung again, and has the shard look at what was posted
// without.
func (s *spared) end(now clock.Instant, shard *hca.Shard) {
	for _, p := range *s {
		p.send.WantDoorbell()
		shard.Doorbell(now, p.q)
	}
	clear(*s)
	*s = (*s)[:0]
}
