package qp

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Costs of a packet in a peer's receive buffer: the system charges its own
// bookkeeping too, so small packets cost more than their bytes.
const (
	packetOverhead = 128
	minPacketCost  = 512
)

// Bounds of what may be in flight, in bytes of cost.
const (
	minWindow     = 8 << 10
	initialWindow = 128 << 10
)

// peer is what all QPs to one address share: its socket buffer, so what may be in
// flight to all of them together, and what is known of its ways. One queue pair
// that loses much has its own window for that. When several lose at the same time,
// it is the buffer, and as there may be more of them than it has room for packets,
// no window of theirs could be small enough.
type peer struct {
	dst      netip.Addr
	buffer   lossLimit // of the bytes that may be in flight
	inFlight int
	refs     int
	waiters  []*share // of those that have something to send but no room, from head on
	head     int
	prober   *share        // was let go over the limit; nil when all of it came back
	probeEnd clock.Instant // until when no other is

	loser    ib.QPN // that lost
	unpaired uint32 // packets in this round more than the others together, as far as that is counted
	wentBack ib.QPN // that last sent everything again

	known knowledge     // of what the peer does with packets beyond a gap
	heard clock.Instant // when it last acknowledged anything
}

// packetCost returns what n bytes of payload cost in flight.
func packetCost(n uint32) uint32 { return max(n+packetOverhead, minPacketCost) }

// fits reports whether so much more may be in flight.
func (p *peer) fits(cost uint32) bool { return p.inFlight+int(cost) <= p.buffer.limit }

// lost counts n packets that a queue pair lost. Of those that another one lost
// too in the round as many count: what one alone has lost says nothing of the
// buffer.
func (p *peer) lost(by ib.QPN, n uint32) {
	pairs := uint32(0)
	if by == p.loser {
		p.unpaired += n
	} else if pairs = min(n, p.unpaired); n > pairs {
		p.loser, p.unpaired = by, n-pairs
	} else {
		p.unpaired -= pairs
	}
	if p.buffer.lose(2*pairs, p.buffer.limit) {
		p.unpaired = 0
	}
}

// lostAll counts that a queue pair sends everything again. Another one must have
// done so within the window.
func (p *peer) lostAll(by ib.QPN) {
	if p.wentBack != 0 && p.wentBack != by {
		p.buffer.loseAll(p.buffer.limit)
	} else {
		p.buffer.since = 0
	}
	p.wentBack = by
}

// wake hands the room that is left to those that wait for it, oldest first.
func (p *peer) wake() {
	for room := p.buffer.limit - p.inFlight; p.head < len(p.waiters) && room > 0; p.head++ {
		s := p.waiters[p.head]
		p.waiters[p.head] = nil
		s.waiting = false
		s.end.wake()
		room -= minPacketCost
	}
	if p.head > len(p.waiters)/2 {
		n := copy(p.waiters, p.waiters[p.head:])
		clear(p.waiters[n:])
		p.waiters, p.head = p.waiters[:n], 0
	}
}
