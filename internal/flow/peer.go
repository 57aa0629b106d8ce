package flow

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Costs of a packet in a peer's receive buffer: the kernel also charges its
// bookkeeping, so a small packet costs more than its bytes.
const (
	packetOverhead = 128
	minPacketCost  = 512
)

// Bounds of the window, in bytes of cost.
const (
	minWindow     = 8 << 10
	initialWindow = 128 << 10
)

// peer is the state that all QPs to one address share: the limit of the bytes in
// flight to its socket buffer, and what is known about its loss recovery. A loss
// of one queue pair shrinks only its own window. When several lose packets at the
// same time, the buffer overflowed; they can outnumber the packets that it holds,
// so shrinking their windows would not suffice.
type peer struct {
	dst      netip.Addr
	buffer   lossLimit // bytes that may be in flight
	inFlight int
	refs     int
	waiters  []*Share // shares that wait for room, from index head
	head     int
	prober   *Share        // may exceed the limit; nil once nothing of it is in flight
	probeEnd clock.Instant // no other may exceed the limit before

	loser    ib.QPN // QP with unpaired losses
	unpaired uint32 // packets that loser lost in this round and that no other QP's loss has matched
	wentBack ib.QPN // QP that last went back N

	known Knowledge     // go-back-N or selective repeat
	heard clock.Instant // time of its last acknowledgement
}

// PacketCost returns what n bytes of payload cost in flight.
func PacketCost(n uint32) uint32 { return max(n+packetOverhead, minPacketCost) }

// fits reports whether cost more bytes may be in flight.
func (p *peer) fits(cost uint32) bool { return p.inFlight+int(cost) <= p.buffer.limit }

// lost counts n packets that a queue pair lost. Only losses that another queue
// pair matches in the same round count against the buffer: a loss of one queue
// pair alone does not show that the buffer is full.
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

// lostAll counts that a queue pair retransmits everything. It shrinks the limit
// only if the queue pair before was another one, within a window.
func (p *peer) lostAll(by ib.QPN) {
	if p.wentBack != 0 && p.wentBack != by {
		p.buffer.loseAll(p.buffer.limit)
	} else {
		p.buffer.since = 0
	}
	p.wentBack = by
}

// wake wakes waiting shares while there is room, the oldest first.
func (p *peer) wake() {
	for room := p.buffer.limit - p.inFlight; p.head < len(p.waiters) && room > 0; p.head++ {
		s := p.waiters[p.head]
		p.waiters[p.head] = nil
		s.waiting = false
		s.sender.Wake()
		room -= minPacketCost
	}
	if p.head > len(p.waiters)/2 {
		n := copy(p.waiters, p.waiters[p.head:])
		clear(p.waiters[n:])
		p.waiters, p.head = p.waiters[:n], 0
	}
}
