package qp

import (
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
)

// Costs of a packet in a peer's receive buffer: the system charges its own
// bookkeeping too, so small packets cost more than their bytes.
const (
	packetOverhead = 128
	minPacketCost  = 512
)

// Bounds of a window, in bytes of cost.
const (
	minWindow     = 8 << 10
	initialWindow = 128 << 10
)

// peer is what may be in flight towards one peer address. All QPs to that
// peer share it, because what it protects, the peer's socket buffer, is
// shared. It grows with what is acknowledged, and halves when so much is lost
// that the buffer must have been full: some loss is in the nature of a network.
type peer struct {
	dst      netip.Addr
	limit    int // bytes that may be in flight
	most     int // that the limit may be
	inFlight int
	refs     int
	waiters  []*share // of those that have something to send but no room, from head on
	head     int
	prober   *share        // was let go over the limit; nil when all of it came back
	probeEnd clock.Instant // until when no other is

	known      knowledge     // of what the peer does with packets beyond a gap
	heard      clock.Instant // when it last acknowledged anything
	sent, lost uint32        // packets, since the limit was last looked at
	acked      int           // bytes, since sending last went back
}

// packetCost returns what n bytes of payload cost in flight.
func packetCost(n uint32) uint32 { return max(n+packetOverhead, minPacketCost) }

// ackEvery returns how many packets of the given cost may pass between two
// that ask for an acknowledgement: a quarter of the window.
func (p *peer) ackEvery(cost uint32) uint32 { return max(1, uint32(p.limit)/(4*cost)) }

// fits reports whether so much more may be in flight.
func (p *peer) fits(cost uint32) bool { return p.inFlight+int(cost) <= p.limit }

// wake hands the room that is left to those that wait for it, oldest first.
func (p *peer) wake() {
	for room := p.limit - p.inFlight; p.head < len(p.waiters) && room > 0; p.head++ {
		s := p.waiters[p.head]
		p.waiters[p.head] = nil
		s.waiting = false
		s.qp.wake()
		room -= minPacketCost
	}
	if p.head > len(p.waiters)/2 {
		n := copy(p.waiters, p.waiters[p.head:])
		clear(p.waiters[n:])
		p.waiters, p.head = p.waiters[:n], 0
	}
}

// shrink halves the window.
func (p *peer) shrink() { p.limit = max(minWindow, p.limit/2) }
