package sim

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// sharedQueue is a shared receive queue and its expected contents.
type sharedQueue struct {
	srq    *qp.SRQ
	space  *space
	posted map[uint64]*receive
	// lost is the maximum number of receives that never complete, because queue pairs had taken
	// them when they were reset or destroyed.
	lost int

	// Of XRC only.
	pd    *hca.PD
	cq    *queue
	short bool // a receive that may be shorter than a message was posted
	gone  bool // the queue was destroyed
}

// shared returns the shared receive queues from which the end may take receives.
func (e *end) shared() []*sharedQueue {
	switch {
	case e.domain != nil:
		return e.domain.queues
	case e.srq != nil:
		return []*sharedQueue{e.srq}
	}
	return nil
}

// takeShared finds a receive that completed. Each end takes the oldest receive of the queue, and holds
// one at a time. So there are at most as many older incomplete receives as other ends.
func (e *end) takeShared(id uint64) *receive {
	for _, q := range e.shared() {
		v := q.posted[id]
		if v == nil {
			continue
		}
		delete(q.posted, id)
		older := 0
		for k := range q.posted {
			if k < id {
				older++
			}
		}
		if most := q.holders(e) + q.lost; older > most {
			e.w.Fail("order", "adapter %d qp %v: receive %d completes before %d older ones of its shared queue, of which at most %d are taken",
				e.node.Index, e.num, id, older, most)
		}
		return v
	}
	return nil
}

// holders counts the other ends that may hold a receive of the queue.
func (q *sharedQueue) holders(e *end) (n int) {
	for _, o := range e.node.ends {
		if o != e && q.heldBy(o) {
			n++
		}
	}
	return n
}

// heldBy reports whether an end may have taken a receive of the queue.
func (q *sharedQueue) heldBy(e *end) bool {
	return e.state >= ib.RTR && e.state != ib.ERR && slices.Contains(e.shared(), q)
}

// leavesReceives notes that a receive of each queue never completes, since the end may have taken it.
func (e *end) leavesReceives() {
	for _, q := range e.shared() {
		if q.heldBy(e) {
			q.lost++
		}
	}
}

// recvQueueOf returns the completion queue of a receive: the one of the shared receive queue, if the
// end is a target.
func (e *end) recvQueueOf(id uint64) *queue {
	for _, q := range e.shared() {
		if q.cq != nil && q.posted[id] != nil {
			return q.cq
		}
	}
	return e.recvQ
}
