package qp

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// share is what one QP has in flight of all that is on its way to its peer.
// Without a peer (services that are not acknowledged) it counts nothing.
type share struct {
	qp      *QP
	peer    *peer
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
// must wait is woken when there is room.
func (s *share) admit(now clock.Instant, cost uint32, unasked bool) bool {
	p := s.peer
	if p.fits(cost) || p.inFlight == 0 || unasked || s.probing {
		s.probing = false
		s.timer(clock.Never)
		return true
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

func (s *share) deadline() *clock.Instant { return &s.qp.ep.timers[timerProbe] }

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
		s.qp.wake()
	}
}

// charge counts a request in flight that, or whose answer, is n packets.
func (s *share) charge(cost, n uint32) {
	if s.peer == nil {
		return
	}
	s.cost += int(cost)
	s.peer.inFlight += int(cost)
	s.peer.sent += n
}

// part returns what n of m packets in flight cost.
func (s *share) part(n, m uint32) int {
	if n < m {
		return int(uint64(s.cost) * uint64(n) / uint64(m))
	}
	return s.cost
}

// credit takes back what n of m packets in flight cost, after they were
// acknowledged, and lets the window grow by one packet of the given cost for
// each window.
func (s *share) credit(n, m, packet uint32) {
	p := s.peer
	freed := s.part(n, m)
	s.uncharge(freed)
	p.acked += freed
	if p.limit < p.most {
		p.limit = min(p.most, p.limit+max(1, freed*int(packet)/p.limit))
	}
	p.wake()
}

// landed takes back what n of m packets in flight cost: they are in the peer's
// buffer no more, whatever became of them.
func (s *share) landed(n, m uint32) {
	s.uncharge(s.part(n, m))
	s.peer.wake()
}

// goBack takes everything back: what was in flight will be sent again.
func (s *share) goBack() {
	s.uncharge(s.cost)
	s.peer.wake()
}

// lossRound is how many packets are sent before the share of those that were
// lost says whether there are too many in flight: more than one of lossShare. A
// network that loses one of 20 by chance comes to that in one round of fifty.
const (
	lossRound = 128
	lossShare = 10
)

// lost counts n packets that were lost. Loss alone is no sign that the peer's
// buffer overflows: much of it is.
func (s *share) lost(n uint32) {
	p := s.peer
	p.lost += n
	if p.sent < lossRound && p.lost*lossShare <= lossRound {
		return
	}
	if p.lost*lossShare > max(p.sent, lossRound) {
		p.shrink()
	}
	p.sent, p.lost = 0, 0
}

// lostAll counts a loss after which everything is sent again. How much of that
// was lost does not show; the second within a window is too many.
func (s *share) lostAll() {
	p := s.peer
	if p.acked < p.limit {
		p.shrink()
	}
	p.acked = 0
}

// crowded makes the window a little smaller, but not so small that no batch fits
// in.
func (s *share) crowded(batch int) {
	p := s.peer
	p.limit = max(min(p.limit, batch), p.limit-p.limit/8)
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

// join counts the QP among those of a peer's address.
func (s *share) join(t *PeerTable, dst netip.Addr) {
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
