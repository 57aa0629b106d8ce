package qp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// share is what one end has in flight of all that is on its way to its peer.
// Without a peer (services that are not acknowledged) it counts nothing.
type share struct {
	end     *End
	peer    *peer
	window  window
	cost    int
	waiting bool
	probing bool // waited long enough: the next request goes whatever the window
}

// probeTimeout is how long a QP with nothing in flight waits for room in the
// window. The room may be taken by what another QP lost and never sends again,
// or be too small, each time that it is offered, for what this one has to send.
const probeTimeout = 100 * time.Millisecond

// proberTimeout is how long the one QP that is over the limit keeps others
// from going over it too. It ends what a QP holds that waits for ever.
const proberTimeout = 5 * probeTimeout

// admit reports whether cost more may be put in flight; unasked says that
// packets are in flight none of which asks for an acknowledgement: the next one
// does, or nothing would ever make room. There is no other exception, or a
// thousand QPs with a packet each would overflow what one may not. A QP that
// must wait is woken when there is room: in its own window, by what makes it.
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

// timeout lets one request go whatever the window, so that nobody waits for
// ever: one QP of the window at a time, or a peer slower than the timeout of
// many would be asked by all of them at once, and answer none in time.
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

// charge counts a request in flight that, or whose answer, is n packets.
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

// credit takes back what n of m packets in flight cost, after they were
// acknowledged, and lets the window and that of the peer grow by packets of the
// given cost.
func (s *share) credit(now clock.Instant, n, m, packet uint32) {
	freed := s.part(n, m)
	s.window.acked(now, freed, packet)
	s.peer.buffer.acked(freed, 2*s.peer.inFlight >= s.peer.buffer.limit, packet)
	s.uncharge(freed)
	s.peer.wake()
}

// landed takes back what n of m packets in flight cost: they are in the peer's
// buffer no more, whatever became of them.
func (s *share) landed(n, m uint32) {
	s.uncharge(s.part(n, m))
	if s.window.full {
		s.end.wake()
	}
	s.peer.wake()
}

// goBack takes everything back: what was in flight will be sent again.
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

// lostAll counts a loss after which everything is sent again.
func (s *share) lostAll() {
	s.window.loss.loseAll(s.limit())
	s.peer.lostAll(s.end.ep.num)
}

// last reports whether nothing may follow a packet of that cost.
func (s *share) last(cost uint32) bool {
	return !s.peer.fits(2*cost) || !s.window.admits(s.cost+int(cost))
}

// ackEvery returns how many packets of the given cost may pass between two
// that ask for an acknowledgement: a quarter of what may be in flight.
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

// yield gives room that the QP leaves to the next one.
func (s *share) yield() {
	if s.peer != nil && !s.waiting {
		s.peer.wake()
	}
}

// release gives back all that the QP has in flight and its place in the line.
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

// join counts the QP among those of a peer's address, to which it has a path of
// which nothing is known.
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
