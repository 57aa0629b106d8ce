package fault

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
)

// held is a packet that is held back: a copy, and where it goes then.
type held struct {
	due   clock.Instant
	seq   uint64 // packets with the same due go in the order in which they came
	at    int    // place in the heap
	rate  *Live  // whose queue it is in
	late  *Live  // the reorder rule that holds it
	left  int64  // packets that have still to overtake it
	flow  flow
	path  fabric.Path     // of one that leaves
	id    uint16          // its identification
	d     fabric.Datagram // of one that arrived
	bytes []byte
}

// flow is what packets have in common that reorder lets overtake each other.
type flow struct {
	dst netip.Addr
	qpn ib.QPN
}

// hold keeps the packets of one direction that are held back, by due time.
type hold struct {
	heap []*held
	free []*held
	out  []*held // given out; free when their bytes are no longer looked at
	seq  uint64
}

// next returns when the first packet is due.
func (h *hold) next() clock.Instant {
	if len(h.heap) == 0 {
		return clock.Never
	}
	return h.heap[0].due
}

// add returns a new entry with a copy of b, to be filled and pushed; nil when
// there are too many.
func (h *hold) add(b []byte) *held {
	if len(h.heap) == maxQueue {
		return nil
	}
	e := new(held)
	if n := len(h.free); n > 0 {
		e = h.free[n-1]
		h.free = h.free[:n-1]
	}
	*e = held{bytes: append(e.bytes[:0], b...)}
	return e
}

func (h *hold) push(e *held) {
	h.seq++
	e.seq, e.at = h.seq, len(h.heap)
	if e.rate != nil {
		e.rate.waiting++
	}
	if e.late != nil {
		e.late.late = e
	}
	h.heap = append(h.heap, e)
	h.up(e.at)
}

// pop takes the first packet out if it is due. It is valid until recycle.
func (h *hold) pop(now clock.Instant) *held {
	if h.next() > now {
		return nil
	}
	e := h.heap[0]
	h.take(e)
	return e
}

// take takes a packet out. It is valid until recycle.
func (h *hold) take(e *held) {
	last := len(h.heap) - 1
	i := e.at
	h.swap(i, last)
	h.heap[last] = nil
	h.heap = h.heap[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	if e.rate != nil {
		e.rate.waiting--
	}
	if e.late != nil {
		e.late.late = nil
	}
	h.out = append(h.out, e)
}

// recycle reuses the memory of what was taken out.
func (h *hold) recycle() {
	h.free = append(h.free, h.out...)
	h.out = h.out[:0]
}

func (h *hold) less(i, j int) bool {
	a, b := h.heap[i], h.heap[j]
	return a.due < b.due || a.due == b.due && a.seq < b.seq
}

func (h *hold) swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].at, h.heap[j].at = i, j
}

func (h *hold) up(i int) {
	for ; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h.swap(i, (i-1)/2)
	}
}

func (h *hold) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.heap) {
			return
		}
		if c+1 < len(h.heap) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return
		}
		h.swap(i, c)
		i = c
	}
}
