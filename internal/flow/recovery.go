package flow

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Recovery is the flight of a sender that repeats what is lost. The sender tells it what it sent,
// what was acknowledged and what is missing; it decides which packets to repeat, and when (repair.go).
type Recovery struct {
	Flight
	policy Policy
	peer   Knowledge
	whole  bool // ask for whole answers: the peer left a request for a part of one unanswered
	repair repair
}

// Policy says how a sender recovers.
type Policy struct {
	Selective  bool          // it may repeat only what is missing
	Probes     bool          // it sends probes
	ProbeAfter time.Duration // minimum time without an answer before a probe
}

// Move says what a sender sends next. A sender that repeats packets sends those from Una up to
// the packet for which Asks reports true, and then gets a Jump.
type Move uint8

// The moves. Several may come at once: a Skip follows a Jump.
const (
	Repeat Move = 1 << iota // Next is Una: some packets are repeated
	Anew                    // with Repeat: in place of a repair that was being sent; the Jump goes where it would have gone
	Ask                     // with Repeat: they ask a silent peer for an acknowledgement
	Back                    // Next is Una: all packets are repeated
	Jump                    // Next is where sending was before Repeat
	Skip                    // Next is Una: the packets before it were to be sent, and are acknowledged
)

// NewRecovery returns the flight of a sender; id differs from those of the other senders to its
// peer.
func NewRecovery(s Sender, id ib.QPN, t Timers) Recovery {
	return Recovery{Flight: Flight{share: NewShare(s, id, t.Room), timers: t}}
}

// SetPolicy sets how the sender recovers; packet is the cost of a full packet.
func (f *Recovery) SetPolicy(p Policy, packet uint32) { f.policy, f.packet = p, packet }

// Reset forgets the peer and its round trip, and puts the sender at the first PSN.
func (f *Recovery) Reset() {
	f.peer, f.whole, f.rtt = Knowledge{}, false, RoundTrip{}
	f.Start(ib.PSN{})
}

// Start begins at psn with nothing in flight.
func (f *Recovery) Start(psn ib.PSN) {
	f.repair = repair{}
	f.start(psn)
}

// Join makes the sender one of those to the peer at dst.
func (f *Recovery) Join(t *Table, dst netip.Addr) {
	f.share.Join(t, dst)
	f.peer = f.share.Known()
}

// Rejoin continues on another path, to the peer at dst, of which nothing is measured yet.
// Everything in flight is to be sent again.
func (f *Recovery) Rejoin(t *Table, dst netip.Addr) Move {
	m := f.goBack()
	f.Join(t, dst)
	f.rtt = RoundTrip{}
	*f.timers.Probe = clock.Never
	return m
}

// AckDue reports whether a packet of the given cost requests an acknowledgement in the middle of
// a message.
func (f *Recovery) AckDue(cost uint32) bool { return f.Asks() || f.ackDue(cost) }

// Sent goes on by n PSNs after the packet at Next was sent, and arms the probe timeout.
func (f *Recovery) Sent(now clock.Instant, n uint32) Move {
	if f.timeable() {
		f.beginRound(now, n)
	}
	f.sent(n)
	if *f.timers.Probe == clock.Never {
		f.StartProbe(now)
	}
	return f.repaired(now)
}

// Acknowledged handles an acknowledgement of everything before to, which is after Una.
func (f *Recovery) Acknowledged(now clock.Instant, to ib.PSN) Move {
	f.acknowledged(now, to)
	f.repair.silent = false
	move := f.skip() | f.repaired(now)
	f.endRound(now)
	return move
}

// Await restarts the probe timeout, or stops it if nothing is outstanding.
func (f *Recovery) Await(now clock.Instant) {
	*f.timers.Probe = clock.Never
	if f.Outstanding() {
		f.StartProbe(now)
	}
}

// Rest stops the probe timeout for a time in which nothing is sent.
func (f *Recovery) Rest() { *f.timers.Probe = clock.Never }

// skip goes on at the oldest packet if earlier ones were to be sent.
func (f *Recovery) skip() Move {
	if f.next.Diff(f.una) >= 0 {
		return 0
	}
	f.next = f.una
	return Skip
}

// goBack repeats everything from the oldest packet on (E4).
func (f *Recovery) goBack() Move {
	f.repair.stopped, f.repair.silent = false, false
	f.back()
	return Back
}
