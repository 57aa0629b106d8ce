package qp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// share is one end's share of the bytes in flight to its peer. It counts
// nothing for unreliable services, which have no peer here.
type share struct {
	end     *End
	peer    *peer
	window  window
	cost    int
	waiting bool
	probing bool // the next request may exceed the window, after probeTimeout
}

// probeTimeout is how long a QP with nothing in flight waits for room in the
// window. Packets that another QP lost and never sends again may occupy the
// room, or each offer of room may be too small for this QP's request.
const probeTimeout = 100 * time.Millisecond

// proberTimeout is how long the one QP that exceeds the limit keeps others from
// exceeding it too. It bounds the hold of a QP that never gets an answer.
const proberTimeout = 5 * probeTimeout

// admit reports whether cost more bytes may be in flight. unasked: packets are
// in flight and none of them requests an acknowledgement; then the next packet
// may go, and requests one, since otherwise no room would ever be freed. There
// is no other exception: a thousand QPs with one packet each would overflow the
// buffer. A waiting QP is woken when the peer has room, or by acknowledgements
// of its own packets.
func (s *share) admit(now clock.Instant, cost uint32, unasked bool) bool {
	p := s.peer
	own := s.window.admits(s.cost)
	if own && (p.fits(cost) || p.inFlight == 0) || unasked || s.probing {
		s.probing = false
		s.timer(clock.Never)
		return true
	}
	s.window.full = true
	if !own {
		return false
	}
	if !s.waiting {
		s.waiting = true
		p.waiters = append(p.waiters, s)
	}
	if s.cost == 0 && *s.deadline() == clock.Never {
		s.timer(now.Add(probeTimeout))
	}
	return false
}

func (s *share) deadline() *clock.Instant { return &s.end.ep.timers[timerProbe] }

func (s *share) timer(at clock.Instant) { *s.deadline() = at }

// timeout lets one request exceed the window, so that no QP waits forever. Only
// one QP at a time may do so: a slow peer could not answer probes of many QPs
// in time.
func (s *share) timeout(now clock.Instant) {
	p := s.peer
	switch {
	case s.cost != 0:
	case p.prober != nil && p.prober != s && now < p.probeEnd:
		s.timer(now.Add(probeTimeout))
	default:
		p.prober, p.probeEnd = s, now.Add(proberTimeout)
		s.probing = true
		s.end.wake()
	}
}

// charge counts a request in flight; the request, or its response, has n
// packets.
func (s *share) charge(cost, n uint32) {
	if s.peer == nil {
		return
	}
	s.cost += int(cost)
	s.window.loss.sent += n
	s.peer.inFlight += int(cost)
	s.peer.buffer.sent += n
}

// part returns what n of m packets in flight cost.
func (s *share) part(n, m uint32) int {
	if n < m {
		return int(uint64(s.cost) * uint64(n) / uint64(m))
	}
	return s.cost
}

// credit releases the cost of n of m packets in flight after their
// acknowledgement, and lets the windows of the QP and of the peer grow by
// packets of the given cost.
func (s *share) credit(now clock.Instant, n, m, packet uint32) {
	freed := s.part(n, m)
	s.window.acked(now, freed, packet)
	s.peer.buffer.acked(freed, 2*s.peer.inFlight >= s.peer.buffer.limit, packet)
	s.uncharge(freed)
	s.peer.wake()
}

// landed releases the cost of n of m packets in flight: they arrived or were
// lost, so they are no longer in the peer's socket buffer.
func (s *share) landed(n, m uint32) {
	s.uncharge(s.part(n, m))
	if s.window.full {
		s.end.wake()
	}
	s.peer.wake()
}

// goBack releases the cost of everything in flight, which will be sent again.
func (s *share) goBack() {
	s.uncharge(s.cost)
	s.peer.wake()
}

// limit returns how many bytes of this QP may be in flight.
func (s *share) limit() int { return min(s.window.limit(), s.peer.buffer.limit) }

// lost counts n packets that were lost.
func (s *share) lost(n uint32) {
	s.window.loss.lose(n, s.limit())
	s.peer.lost(s.end.ep.num, n)
}

// lostAll counts a loss after which everything is retransmitted.
func (s *share) lostAll() {
	s.window.loss.loseAll(s.limit())
	s.peer.lostAll(s.end.ep.num)
}

// last reports whether the window is full after one more packet of that cost.
func (s *share) last(cost uint32) bool {
	return !s.peer.fits(2*cost) || !s.window.admits(s.cost+int(cost))
}

// ackEvery returns the number of packets of the given cost between two
// acknowledge requests: a quarter of what may be in flight.
func (s *share) ackEvery(cost uint32) uint32 {
	return max(1, uint32(s.limit())/(4*cost))
}

func (s *share) uncharge(cost int) {
	p := s.peer
	s.cost -= cost
	p.inFlight -= cost
	if s.cost == 0 && p.prober == s {
		p.prober = nil
	}
}

// yield offers room that this QP does not use to the next waiting one.
func (s *share) yield() {
	if s.peer != nil && !s.waiting {
		s.peer.wake()
	}
}

// release gives back all that the QP has in flight and its place among the
// waiting ones.
func (s *share) release() {
	p := s.peer
	if p == nil {
		return
	}
	s.uncharge(s.cost)
	if s.waiting {
		if i := slices.Index(p.waiters, s); i >= 0 {
			p.waiters = slices.Delete(p.waiters, i, i+1)
		}
	}
	s.waiting, s.probing = false, false
	s.timer(clock.Never)
	p.wake()
}

// join makes the QP a user of the peer at dst, with a new window for a path
// about which nothing is known.
func (s *share) join(t *PeerTable, dst netip.Addr) {
	s.window = newWindow(t.most)
	if s.peer != nil && s.peer.dst == dst {
		return
	}
	s.leave(t)
	s.peer = t.hold(dst)
}

// leave takes the QP from its peer.
func (s *share) leave(t *PeerTable) {
	s.release()
	if s.peer != nil {
		t.release(s.peer)
		s.peer = nil
	}
}
