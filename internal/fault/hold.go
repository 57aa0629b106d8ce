package fault

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
)

// held is a copy of a packet that is held back, with its destination.
type held struct {
	timer deadline.Link
	due   clock.Instant
	rate  *Live // whose queue it is in
	late  *Live // the reorder rule that holds it
	left  int64 // number of packets that must still overtake it
	flow  flow
	path  fabric.Path     // path of an outgoing packet
	id    uint16          // its identification
	d     fabric.Datagram // datagram of an incoming packet
	bytes []byte
}

// flow identifies packets that reorder lets overtake each other.
type flow struct {
	dst netip.Addr
	qpn ib.QPN
}

// hold keeps the packets of one direction that are held back, by due time.
type hold struct {
	heap deadline.Heap[held]
	free []*held
	out  []*held // passed on; reused once their bytes are no longer read
}

func newHold() hold {
	return hold{heap: deadline.New(func(e *held) *deadline.Link { return &e.timer })}
}

// add returns a new entry with a copy of b, for the caller to fill and push;
// nil at the limit.
func (h *hold) add(b []byte) *held {
	if h.heap.Len() == maxQueue {
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
	if e.rate != nil {
		e.rate.waiting++
	}
	if e.late != nil {
		e.late.late = e
	}
	h.heap.Set(e, e.due)
}

// pop removes and returns the first packet if it is due. It is valid until
// recycle.
func (h *hold) pop(now clock.Instant) *held {
	if h.heap.Next() > now {
		return nil
	}
	e := h.heap.All()[0]
	h.take(e)
	return e
}

// take removes a packet. It is valid until recycle.
func (h *hold) take(e *held) {
	h.heap.Remove(e)
	if e.rate != nil {
		e.rate.waiting--
	}
	if e.late != nil {
		e.late.late = nil
	}
	h.out = append(h.out, e)
}

// recycle reuses the memory of removed packets.
func (h *hold) recycle() {
	h.free = append(h.free, h.out...)
	h.out = h.out[:0]
}
