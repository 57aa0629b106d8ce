package flow

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Flight is what one sender has in flight: the packets from Una up to the first that was never
// sent. It says whether another one may follow. The sender sends next the packet at Next.
type Flight struct {
	una      ib.PSN // oldest that is not acknowledged
	next     ib.PSN // next to send; before fresh while packets are repeated
	fresh    ib.PSN // first that was never sent
	sinceAck uint32 // packets sent since the last acknowledge request
	stage    repairStage
	goOn     ib.PSN // where sending continues after a repair; everything before it was sent
	landed   ib.PSN // oldest packet that may be in flight; earlier ones take no room in the window
	packet   uint32 // cost of a full packet
	timers   Timers
	rtt      RoundTrip
	round    round
	share    Share
	estimate InFlight
}

// round is a round of the window. It begins with a packet that is timed and ends when all that this
// packet requests has arrived: for a READ, when its last response has.
type round struct {
	begun clock.Instant
	until ib.PSN        // the first PSN after those of the packet
	trip  time.Duration // from begun to the first part of the answer; 0 until it arrives
}

// repairStage is the stage of the repair of a gap.
type repairStage uint8

const (
	repairNone    repairStage = iota
	repairSending             // some packets are repeated, then sending continues at goOn
	repairWaiting             // for the answer
)

// ackRun is the maximum number of packets in a row without an acknowledge
// request, even if the window allows more; rxe does the same.
const ackRun = 64

// Timers are the instants at which a Flight is to be asked again. The sender owns them.
type Timers struct {
	Room     *clock.Instant // for RoomTimeout
	Probe    *clock.Instant // for Probe
	Estimate *clock.Instant // for EstimateTimeout
}

// start begins at psn with nothing in flight.
func (f *Flight) start(psn ib.PSN) {
	f.una, f.next, f.fresh, f.sinceAck, f.stage = psn, psn, psn, 0, repairNone
	f.landed, f.estimate = psn, InFlight{}
	f.cancelRound()
}

// Una returns the oldest PSN that is not acknowledged.
func (f *Flight) Una() ib.PSN { return f.una }

// Next returns the PSN to send next.
func (f *Flight) Next() ib.PSN { return f.next }

// Fresh returns the first PSN that was never sent.
func (f *Flight) Fresh() ib.PSN { return f.fresh }

// Outstanding reports whether sent packets are unacknowledged.
func (f *Flight) Outstanding() bool { return f.fresh != f.una }

// Leave takes the sender from its peer.
func (f *Flight) Leave(t *Table) { f.share.Leave(t) }

// Release gives back the sender's room at its peer.
func (f *Flight) Release() { f.share.Release() }

// Drop gives back the room of what is in flight, which the sender gives up. Start follows.
func (f *Flight) Drop() { f.share.GoBack() }

// Yield offers room that the sender does not use to the next waiting one.
func (f *Flight) Yield() { f.share.Yield() }

// RoomTimeout fires Timers.Room.
func (f *Flight) RoomTimeout(now clock.Instant) { f.share.Timeout(now) }

// Admit reports whether a request that puts cost bytes in flight may be sent.
func (f *Flight) Admit(now clock.Instant, cost uint32) bool {
	return f.share.Admit(now, cost, f.sinceAck > 0)
}

// ackDue reports whether a packet of the given cost requests an acknowledgement, to keep the window
// moving.
func (f *Flight) ackDue(cost uint32) bool {
	return f.share.Last(cost) || f.sinceAck+1 >= min(ackRun, f.share.AckEvery(cost))
}

// Charge counts a request in flight, unless it is a repeated one, which counts already. n is the
// number of its packets, or of those of its answer; asked says that it requests one.
func (f *Flight) Charge(cost, n uint32, asked bool) {
	if !f.Sending() {
		f.share.Charge(cost, n)
	}
	if f.sinceAck++; asked {
		f.sinceAck = 0
	}
}

// Pass counts n packets that nothing acknowledges.
func (f *Flight) Pass(n uint32) {
	f.next = f.next.Add(n)
	f.una, f.fresh = f.next, f.next
}

// Sending reports whether the packets of a repair are next to be sent.
func (f *Flight) Sending() bool { return f.stage == repairSending }

// Waiting reports whether a repair waits for its answer: Judge follows each answer.
func (f *Flight) Waiting() bool { return f.stage == repairWaiting }

// sentUpTo returns the first packet that was not sent since sending went back.
func (f *Flight) sentUpTo() ib.PSN {
	if f.Sending() {
		return f.goOn
	}
	return f.next
}

// beginRound starts a round of the window with the packet at Next, which uses n PSNs, unless a round
// is in progress.
func (f *Flight) beginRound(now clock.Instant, n uint32) {
	if f.round.trip == 0 && f.rtt.Begin(f.next, now) {
		f.round.begun, f.round.until = now, f.next.Add(n)
		f.share.BeginRound()
	}
}

// cancelRound ends a round without a result: something else holds the answer back.
func (f *Flight) cancelRound() {
	f.rtt.Cancel()
	f.round.trip = 0
}

// timeable reports whether the answer to the packet at Next, which was just sent, shows the round trip: it
// requests one, and it was not sent before.
func (f *Flight) timeable() bool {
	return f.next == f.fresh && f.sinceAck == 0 && f.stage == repairNone
}

// sent goes on by n PSNs after the packet at Next was sent.
func (f *Flight) sent(n uint32) {
	f.next = f.next.Add(n)
	if f.next.Diff(f.fresh) > 0 {
		f.fresh = f.next
	}
}

// acknowledged gives back the room of the packets before to, which is after Una.
func (f *Flight) acknowledged(now clock.Instant, to ib.PSN) {
	if n, m := to.Diff(f.landed), f.sentUpTo().Diff(f.landed); n > 0 && m > 0 {
		f.share.Credit(now, uint32(min(n, m)), uint32(m), f.packet)
	}
	f.share.Heard(now)
	if f.una = to; to.Diff(f.landed) > 0 {
		f.landed = to
	}
}

// endRound ends the round of the window if all PSNs of its packet are acknowledged.
func (f *Flight) endRound(now clock.Instant) {
	r := &f.round
	if d, ok := f.rtt.End(f.una, now); ok {
		r.trip = d
	}
	if r.trip == 0 || f.una.Diff(r.until) < 0 {
		return
	}
	f.share.EndRound(r.trip, f.rtt.Least(), max(now.Sub(r.begun), r.trip))
	r.trip = 0
}

// back goes back to the oldest packet: nothing counts as in flight.
func (f *Flight) back() {
	f.share.GoBack()
	f.stage, f.next, f.landed, f.sinceAck = repairNone, f.una, f.una, 0
	f.stopEstimate()
	f.cancelRound()
}

// Measured reports whether a round trip was measured.
func (f *Flight) Measured() bool { return f.rtt.Least() != 0 }

// OverdueAfter returns the time, at least least, after which an answer is overdue.
func (f *Flight) OverdueAfter(least time.Duration) time.Duration { return f.rtt.OverdueAfter(least) }

// Landed marks packets before psn as no longer in flight: they have arrived or are
// lost.
func (f *Flight) Landed(psn ib.PSN) {
	n, m := psn.Diff(f.landed), f.sentUpTo().Diff(f.landed)
	if n = min(n, m); n <= 0 {
		return
	}
	f.share.Landed(uint32(n), uint32(m))
	f.landed = f.landed.Add(uint32(n))
}

// startEstimate starts the in-flight estimate: all packets sent so far count as
// delivered over the next round trip.
func (f *Flight) startEstimate(now clock.Instant) {
	f.estimate = NewInFlight(f.landed, f.sentUpTo(), now, f.rtt.Smoothed())
	f.EstimateTimeout(now)
}

// stopEstimate ends the estimate; acknowledgements count again.
func (f *Flight) stopEstimate() {
	f.estimate = InFlight{}
	*f.timers.Estimate = clock.Never
}

// EstimateTimeout fires Timers.Estimate: it updates the in-flight estimate.
func (f *Flight) EstimateTimeout(now clock.Instant) {
	psn, next := f.estimate.At(now, f.landed)
	f.Landed(psn)
	*f.timers.Estimate = next
}

// Use returns how many bytes may be in flight, and how many are.
func (f *Flight) Use() (window, inFlight uint64) { return f.share.Use() }

// RoundTrip returns the smoothed round trip; 0 if none was measured.
func (f *Flight) RoundTrip() time.Duration { return f.rtt.Smoothed() }
