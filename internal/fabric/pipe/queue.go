package pipe

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/lock"
)

// overhead is the cost of a queued datagram in addition to its bytes. Without
// it a flood of empty datagrams would be free, and the queue unbounded.
const overhead = 64

// entry is a queued datagram: its bytes are buf[lo:hi] of its half.
type entry struct {
	lo, hi int
	d      fabric.Datagram // Bytes unset: buf may still move
}

// half is one of the two buffers of a queue.
type half struct {
	buf     []byte
	entries []entry
	taken   int // entries already received
}

func (h *half) empty() bool { return h.taken == len(h.entries) }

func (h *half) reset() {
	h.buf, h.entries, h.taken = h.buf[:0], h.entries[:0], 0
}

// queue holds the arrived runs of a port. Senders fill one half while the
// receiver reads the other, so received bytes stay valid while more arrive. The
// halves grow up to the bound and are then reused.
type queue struct {
	limit int

	mu   lock.Mutex[lock.PipeQueue] // guards the following fields, except for received bytes of out
	cost int                        // of all entries not yet received
	in   *half
	out  *half
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, in: new(half), out: new(half)}
}

// put copies a run into the queue, or reports that it does not fit.
func (q *queue) put(r *fabric.Run) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	cost := len(r.Bytes) + overhead
	if q.cost+cost > q.limit {
		return false
	}
	q.cost += cost
	lo := len(q.in.buf)
	q.in.buf = append(q.in.buf, r.Bytes...)
	d := fabric.Datagram{
		Src:       r.Path.Src,
		Dst:       r.Path.Dst,
		SrcPort:   r.Path.SrcPort,
		DstPort:   fabric.RoCEPort,
		IDKnown:   true,
		TClass:    r.Path.TClass,
		HopLimit:  r.Path.HopLimit,
		FlowLabel: r.Path.FlowLabel,
	}
	if r.Count > 1 {
		d.Stride = r.Size
	}
	q.in.entries = append(q.in.entries, entry{lo: lo, hi: len(q.in.buf), d: d})
	return true
}

// take fills ds with queued datagrams and returns their number. It releases the
// bytes of the previous take.
func (q *queue) take(ds []fabric.Datagram) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.out.empty() {
		q.out.reset()
		q.in, q.out = q.out, q.in
	}
	h := q.out
	n := min(len(ds), len(h.entries)-h.taken)
	for i := range ds[:n] {
		e := &h.entries[h.taken+i]
		ds[i] = e.d
		ds[i].Bytes = h.buf[e.lo:e.hi:e.hi]
		q.cost -= e.hi - e.lo + overhead
	}
	h.taken += n
	return n
}

// empty reports whether the queue is empty.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.out.empty() && q.in.empty()
}
