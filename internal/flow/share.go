package flow

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Sender sends the requests that a Share counts.
type Sender interface {
	// Wake reports that there may be room for a request that waited.
	Wake()
}

// Share is one end's share of the bytes in flight to its peer. It counts
// nothing for unreliable services, which have no peer here.
type Share struct {
	sender  Sender
	id      ib.QPN         // differs from those of the other shares of a peer
	timer   *clock.Instant // when the sender is to call Timeout; the sender owns it
	peer    *peer
	control Controller // of this sender alone
	own     int        // control.Window(), which Admit asks for each packet
	cost    int
	sent    uint32 // packets of which the control does not know yet
	full    bool   // the control limited sending in this round
	waiting bool
	probing bool   // the next request may exceed the window, after probeTimeout
	window  window // the control of every sender so far
}

// NewShare returns the share of a sender, which calls Timeout at *timer.
func NewShare(sender Sender, id ib.QPN, timer *clock.Instant) Share {
	return Share{sender: sender, id: id, timer: timer}
}

// probeTimeout is how long a QP with nothing in flight waits for room in the
// window. Packets that another QP lost and never sends again may occupy the
// room, or each offer of room may be too small for this QP's request.
const probeTimeout = 100 * time.Millisecond

// proberTimeout is how long the one QP that exceeds the limit keeps others from
// exceeding it too. It bounds the hold of a QP that never gets an answer.
const proberTimeout = 5 * probeTimeout

// Admit reports whether cost more bytes may be in flight. unasked: packets are
// in flight and none of them requests an acknowledgement; then the next packet
// may go, and requests one, since otherwise no room would ever be freed. There
// is no other exception: a thousand QPs with one packet each would overflow the
// buffer. A waiting QP is woken when the peer has room, or by acknowledgements
// of its own packets.
func (s *Share) Admit(now clock.Instant, cost uint32, unasked bool) bool {
	p := s.peer
	own := s.admits(s.cost)
	if own && (p.fits(cost) || p.inFlight == 0) || unasked || s.probing {
		s.probing = false
		*s.timer = clock.Never
		return true
	}
	s.full = true
	if !own {
		return false
	}
	if !s.waiting {
		s.waiting = true
		p.waiters = append(p.waiters, s)
	}
	if s.cost == 0 && *s.timer == clock.Never {
		*s.timer = now.Add(probeTimeout)
	}
	return false
}

// Timeout lets one request exceed the window, so that no QP waits forever. Only
// one QP at a time may do so: a slow peer could not answer probes of many QPs
// in time.
func (s *Share) Timeout(now clock.Instant) {
	p := s.peer
	switch {
	case s.cost != 0:
	case p.prober != nil && p.prober != s && now < p.probeEnd:
		*s.timer = now.Add(probeTimeout)
	default:
		p.prober, p.probeEnd = s, now.Add(proberTimeout)
		s.probing = true
		s.sender.Wake()
	}
}

// Charge counts a request in flight; the request, or its response, has n
// packets.
func (s *Share) Charge(cost, n uint32) {
	if s.peer == nil {
		return
	}
	s.cost += int(cost)
	s.sent += n
	s.peer.inFlight += int(cost)
	s.peer.buffer.sent += n
}

// steer gives the sender a new congestion control.
func (s *Share) steer(c Controller) { s.control, s.own, s.sent, s.full = c, c.Window(), 0, false }

// sentNow returns how many packets were sent since the last time. The control hears of packets
// together with what became of some, and not at each packet.
func (s *Share) sentNow() uint32 {
	n := s.sent
	s.sent = 0
	return n
}

// admits reports whether another request may be sent with inFlight bytes
// outstanding. That request may exceed the window; otherwise a long READ would
// never fit.
func (s *Share) admits(inFlight int) bool { return inFlight < s.own }

// part returns what n of m packets in flight cost.
func (s *Share) part(n, m uint32) int {
	if n < m {
		return int(uint64(s.cost) * uint64(n) / uint64(m))
	}
	return s.cost
}

// Credit releases the cost of n of m packets in flight after their
// acknowledgement, and lets the windows of the QP and of the peer grow by
// packets of the given cost.
func (s *Share) Credit(now clock.Instant, n, m, packet uint32) {
	freed := s.part(n, m)
	s.own = s.control.Acknowledged(now, s.sentNow(), freed, packet, s.full)
	s.peer.buffer.acked(freed, 2*s.peer.inFlight >= s.peer.buffer.limit, packet)
	s.uncharge(freed)
	s.peer.wake()
}

// Landed releases the cost of n of m packets in flight: they arrived or were
// lost, so they are no longer in the peer's socket buffer.
func (s *Share) Landed(n, m uint32) {
	s.uncharge(s.part(n, m))
	if s.full {
		s.sender.Wake()
	}
	s.peer.wake()
}

// GoBack releases the cost of everything in flight, which will be sent again.
func (s *Share) GoBack() {
	if s.peer == nil {
		return
	}
	s.uncharge(s.cost)
	s.peer.wake()
}

// limit returns how many bytes of this QP may be in flight.
func (s *Share) limit() int { return min(s.own, s.peer.buffer.limit) }

// Lost counts n packets that were lost.
func (s *Share) Lost(n uint32) {
	s.own = s.control.Lost(s.sentNow(), n, s.limit())
	s.peer.lost(s.id, n)
}

// LostAll counts a loss after which everything is retransmitted.
func (s *Share) LostAll() {
	s.own = s.control.LostAll(s.sentNow(), s.limit())
	s.peer.lostAll(s.id)
}

// Last reports whether the window is full after one more packet of that cost.
func (s *Share) Last(cost uint32) bool {
	return !s.peer.fits(2*cost) || !s.admits(s.cost+int(cost))
}

// AckEvery returns the number of packets of the given cost between two
// acknowledge requests: a quarter of what may be in flight.
func (s *Share) AckEvery(cost uint32) uint32 {
	return max(1, uint32(s.limit())/(4*cost))
}

func (s *Share) uncharge(cost int) {
	p := s.peer
	s.cost -= cost
	p.inFlight -= cost
	if s.cost == 0 && p.prober == s {
		p.prober = nil
	}
}

// Yield offers room that this QP does not use to the next waiting one.
func (s *Share) Yield() {
	if s.peer != nil && !s.waiting {
		s.peer.wake()
	}
}

// Release gives back all that the QP has in flight and its place among the
// waiting ones.
func (s *Share) Release() {
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
	*s.timer = clock.Never
	p.wake()
}

// Join makes the QP a user of the peer at dst, with a new window for a path
// about which nothing is known.
func (s *Share) Join(t *Table, dst netip.Addr) {
	s.window = newWindow(t.most)
	s.steer(&s.window)
	if s.peer != nil && s.peer.dst == dst {
		return
	}
	s.Leave(t)
	s.peer = t.hold(dst)
}

// Leave takes the QP from its peer.
func (s *Share) Leave(t *Table) {
	s.Release()
	if s.peer != nil {
		t.release(s.peer)
		s.peer = nil
	}
}

// BeginRound starts a round of the window: the packet sent now is timed.
func (s *Share) BeginRound() {
	s.full = false
	s.control.BeginRound()
}

// EndRound ends a round. The parameters are those of Controller.RoundTrip.
func (s *Share) EndRound(d, least, all time.Duration) {
	s.own = s.control.RoundTrip(d, least, all, s.full)
}

// Marked counts a sign of congestion without loss; batch is the size of a burst in bytes.
func (s *Share) Marked(batch int) {
	s.own = s.control.Marked(batch)
}

// Heard notes that the peer has acknowledged something.
func (s *Share) Heard(now clock.Instant) { s.peer.heard = now }

// HeardWithin reports whether the peer has acknowledged something of any sender within d.
func (s *Share) HeardWithin(now clock.Instant, d time.Duration) bool {
	return now.Sub(s.peer.heard) < d
}

// Known returns what is known of the peer's loss recovery.
func (s *Share) Known() Knowledge { return s.peer.known }

// Remember notes what was learnt about the peer's loss recovery, for other senders too.
func (s *Share) Remember(k Knowledge) {
	if s.peer != nil {
		s.peer.known = k
	}
}

// Use returns how many bytes the sender may have in flight, and how many it has.
func (s *Share) Use() (window, inFlight uint64) { return uint64(s.own), uint64(s.cost) }
