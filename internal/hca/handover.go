package hca

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// maxArrived bounds the MADs that wait for the control plane: as many as wait to be sent.
const maxArrived = 1024

// keptArrived is the number of entries for which an empty handover keeps memory.
const keptArrived = 64

// handover passes arrived MADs, and notices of queue pairs, from the shard to the control
// plane, in the order in which they came. The control plane arms each notice, so their number
// has a bound, too.
type handover struct {
	waiting atomic.Bool // all is not empty, for threads without the lock

	mu   lock.Mutex[lock.MADs] // guards what follows
	all  []handed
	mads int // of all

	spare []handed // the control plane's, between two calls of take
}

// handed is one arrived MAD or one notice.
type handed struct {
	notice   func(now clock.Instant) // nil for a MAD
	received gsi.Received
	mad      mad.MAD
}

// notify adds a notice.
func (h *handover) notify(f func(now clock.Instant)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, handed{notice: f})
	h.waiting.Store(true)
}

// arrived adds a copy of a MAD, unless too many wait.
func (h *handover) arrived(r *gsi.Received) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mads == maxArrived {
		return false
	}
	h.mads++
	h.all = append(h.all, handed{received: *r, mad: *r.MAD})
	h.waiting.Store(true)
	return true
}

// take calls f for everything that has been handed over before the call.
func (h *handover) take(f func(*handed)) {
	h.mu.Lock()
	all := h.all
	h.all, h.mads, h.spare = h.spare[:0], 0, nil
	h.waiting.Store(false)
	h.mu.Unlock()
	for i := range all {
		f(&all[i])
	}
	if clear(all); cap(all) <= keptArrived {
		h.spare = all
	}
}

// port is QP1 as the shard sees it: it hands arrived MADs over, and sends the waiting ones.
type port struct {
	gsi  *gsi.Interface
	over *handover
	in   gsi.Received
}

// Receive processes a packet for QP1.
func (p *port) Receive(now clock.Instant, packet *roce.Packet, d *fabric.Datagram) {
	if p.gsi.Admit(now, packet, d, &p.in) && !p.over.arrived(&p.in) {
		p.gsi.Refuse(now, &p.in, counters.DropMADQueue)
	}
}

// Transmit appends MADs to a batch.
func (p *port) Transmit(now clock.Instant, n uint8, b *fabric.Batch) (more bool) {
	return p.gsi.Transmit(now, n, b)
}

// Pending reports whether Transmit has something to do.
func (p *port) Pending(n uint8) bool { return p.gsi.Pending(n) }

// Advance does nothing: the timers of QP1's agents belong to the control plane.
func (p *port) Advance(clock.Instant) {}

// Deadline returns clock.Never.
func (p *port) Deadline() clock.Instant { return clock.Never }
