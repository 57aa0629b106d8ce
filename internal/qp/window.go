package qp

import (
	"net/netip"
	"slices"
	"time"

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

// Window is what may be in flight towards one peer address. All QPs to that
// peer share it, because what it protects, the peer's socket buffer, is
// shared. It grows with what is acknowledged, and halves when so much is lost
// that the buffer must have been full: some loss is in the nature of a network.
type Window struct {
	dst      netip.Addr
	limit    int // bytes that may be in flight
	max      int
	inFlight int
	refs     int
	waiters  []*share // of those that have something to send but no room, from head on
	head     int
	prober   *share        // was let go over the limit; nil when all of it came back
	probeEnd clock.Instant // until when no other is

	peer       knowledge     // of what the peer does with packets beyond a gap
	heard      clock.Instant // when it last acknowledged anything
	sent, lost uint32        // packets, since the limit was last looked at
	acked      int           // bytes, since sending last went back
}

// WindowTable finds the window of a peer address.
type WindowTable struct {
	m     map[netip.Addr]*Window
	max   int
	peers peerTable // of addresses without a window
}

// NewWindowTable returns an empty table of windows of at most maxWindow bytes.
func NewWindowTable(maxWindow int) *WindowTable {
	return &WindowTable{
		m: make(map[netip.Addr]*Window), max: max(maxWindow, minWindow),
		peers: peerTable{m: make(map[netip.Addr]knowledge)},
	}
}

// hold returns the window to dst and counts a user.
func (t *WindowTable) hold(dst netip.Addr) *Window {
	w := t.m[dst]
	if w == nil {
		w = &Window{dst: dst, limit: min(initialWindow, t.max), max: t.max, peer: t.peers.m[dst]}
		t.m[dst] = w
	}
	w.refs++
	return w
}

// release takes a user back and forgets a window without users.
func (t *WindowTable) release(w *Window) {
	if w.refs--; w.refs == 0 {
		delete(t.m, w.dst)
		t.peers.put(w.dst, w.peer)
	}
}

// packetCost returns what n bytes of payload cost in flight.
func packetCost(n uint32) uint32 { return max(n+packetOverhead, minPacketCost) }

// ackEvery returns how many packets of the given cost may pass between two
// that ask for an acknowledgement: a quarter of the window.
func (w *Window) ackEvery(cost uint32) uint32 { return max(1, uint32(w.limit)/(4*cost)) }

// fits reports whether so much more may be in flight.
func (w *Window) fits(cost uint32) bool { return w.inFlight+int(cost) <= w.limit }

// wake hands the room that is left to those that wait for it, oldest first.
func (w *Window) wake() {
	for room := w.limit - w.inFlight; w.head < len(w.waiters) && room > 0; w.head++ {
		s := w.waiters[w.head]
		w.waiters[w.head] = nil
		s.waiting = false
		s.qp.wake()
		room -= minPacketCost
	}
	if w.head > len(w.waiters)/2 {
		n := copy(w.waiters, w.waiters[w.head:])
		clear(w.waiters[n:])
		w.waiters, w.head = w.waiters[:n], 0
	}
}

// share is what one QP has in flight in the window of its peer. Without a
// window (services that are not acknowledged) it counts nothing.
type share struct {
	qp      *QP
	window  *Window
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
	w := s.window
	if w.fits(cost) || w.inFlight == 0 || unasked || s.probing {
		s.probing = false
		s.timer(clock.Never)
		return true
	}
	if !s.waiting {
		s.waiting = true
		w.waiters = append(w.waiters, s)
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
	w := s.window
	switch {
	case s.cost != 0:
	case w.prober != nil && w.prober != s && now < w.probeEnd:
		s.timer(now.Add(probeTimeout))
	default:
		w.prober, w.probeEnd = s, now.Add(proberTimeout)
		s.probing = true
		s.qp.wake()
	}
}

// charge counts a request in flight that, or whose answer, is n packets.
func (s *share) charge(cost, n uint32) {
	if s.window == nil {
		return
	}
	s.cost += int(cost)
	s.window.inFlight += int(cost)
	s.window.sent += n
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
	w := s.window
	freed := s.part(n, m)
	s.uncharge(freed)
	w.acked += freed
	if w.limit < w.max {
		w.limit = min(w.max, w.limit+max(1, freed*int(packet)/w.limit))
	}
	w.wake()
}

// landed takes back what n of m packets in flight cost: they are in the peer's
// buffer no more, whatever became of them.
func (s *share) landed(n, m uint32) {
	s.uncharge(s.part(n, m))
	s.window.wake()
}

// goBack takes everything back: what was in flight will be sent again.
func (s *share) goBack() {
	s.uncharge(s.cost)
	s.window.wake()
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
	w := s.window
	w.lost += n
	if w.sent < lossRound && w.lost*lossShare <= lossRound {
		return
	}
	if w.lost*lossShare > max(w.sent, lossRound) {
		w.shrink()
	}
	w.sent, w.lost = 0, 0
}

// lostAll counts a loss after which everything is sent again. How much of that
// was lost does not show; the second within a window is too many.
func (s *share) lostAll() {
	w := s.window
	if w.acked < w.limit {
		w.shrink()
	}
	w.acked = 0
}

// crowded makes the window a little smaller, but not so small that no batch fits
// in.
func (s *share) crowded(batch int) {
	w := s.window
	w.limit = max(min(w.limit, batch), w.limit-w.limit/8)
}

// shrink halves the window.
func (w *Window) shrink() { w.limit = max(minWindow, w.limit/2) }

func (s *share) uncharge(cost int) {
	w := s.window
	s.cost -= cost
	w.inFlight -= cost
	if s.cost == 0 && w.prober == s {
		w.prober = nil
	}
}

// yield gives room that the QP leaves to the next one.
func (s *share) yield() {
	if s.window != nil && !s.waiting {
		s.window.wake()
	}
}

// release gives back all that the QP has in flight and its place in the line.
func (s *share) release() {
	w := s.window
	if w == nil {
		return
	}
	s.uncharge(s.cost)
	if s.waiting {
		if i := slices.Index(w.waiters, s); i >= 0 {
			w.waiters = slices.Delete(w.waiters, i, i+1)
		}
	}
	s.waiting, s.probing = false, false
	s.timer(clock.Never)
	w.wake()
}

// join puts the QP in the window of a peer's address.
func (s *share) join(t *WindowTable, dst netip.Addr) {
	if s.window != nil && s.window.dst == dst {
		return
	}
	s.leave(t)
	s.window = t.hold(dst)
}

// leave takes the QP out of its window.
func (s *share) leave(t *WindowTable) {
	s.release()
	if s.window != nil {
		t.release(s.window)
		s.window = nil
	}
}
