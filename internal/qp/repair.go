package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/trace"
)

// A NAK or silence shows that a packet is missing. The specification's answer
// is go-back-N: send everything again from there. A selective-repeat peer, such
// as an adapter of this kind, buffers packets beyond a gap and needs only the
// missing ones. Peers do not announce their kind, so the requester tests it: it
// retransmits the missing packet and waits. If the answer acknowledges more
// than was retransmitted, the peer is selective-repeat. If not, the peer
// dropped the rest, and the requester goes back, one round trip later than
// without the test. The result applies to the next gap, and to the next
// connection to that address, until the peer shows otherwise.
//
// A probe ends silence: the oldest packet, sent again, requests an
// acknowledgement. It does not count as a retry: only the timer and retry count
// of the verbs end a connection. When that timer expires, the requester sends a
// probe too, so that a peer that was merely late gets nothing else twice.

// repairStage is the stage of the repair of a gap.
type repairStage uint8

const (
	repairNone    repairStage = iota
	repairSending             // psn runs from the gap to until, then jumps to goOn
	repairWaiting             // for the answer
)

// repairCause is why packets are retransmitted, which decides what the answer
// means.
type repairCause uint8

const (
	causeProbe repairCause = iota // the peer is silent
	causeTold                     // a NAK reports the oldest packet as missing
	causeHole                     // a gap in the responses to READs and atomics
)

// repair is a requester's selective retransmission: some packets, not
// everything after them.
type repair struct {
	req     *requester
	peer    flow.Knowledge
	stage   repairStage
	cause   repairCause
	data    bool          // the retransmitted request is a READ or an atomic, answered by data
	certain bool          // the first packet is known to be lost, or the answer to it
	stopped bool          // the answer acknowledged only the retransmission: more is missing, or on its way
	silent  bool          // the peer left a probe unanswered: nothing new is sent
	first   ib.PSN        // first retransmitted packet,
	until   ib.PSN        // and first one after them
	goOn    ib.PSN        // where sending continues afterwards; everything before it was sent
	resume  uint32        // index of the work request that contains goOn
	run     uint32        // number of retransmitted packets
	at      clock.Instant // time of the last retransmission
	landed  ib.PSN        // oldest packet that may be in flight; earlier ones take no room in the window
	landing flow.Landing
	read    readRepair
}

// readRepair says how READs are requested again: only the missing part, if the
// peer is known to accept a request that ends before the original one.
type readRepair struct {
	whole bool // request whole chunks: the peer left a partial request unanswered
	hole  bool // buffered responses bound the missing part
	part  bool // the last request was partial
	parts bool // READs up to end had partial requests: their responses may end anywhere
	end   ib.PSN
}

// reset drops any repair; sending starts at psn.
func (p *repair) reset(r *requester, psn ib.PSN) {
	*p = repair{req: r, peer: p.peer, landed: psn, read: readRepair{whole: p.read.whole}}
}

// end abandons the repair: everything from psn on is sent again.
func (p *repair) end(psn ib.PSN) {
	p.stage, p.stopped, p.silent, p.landed = repairNone, false, false, psn
	p.stopLanding()
}

// on reports whether the adapter uses selective retransmission.
func (p *repair) on() bool { return p.req.ep.env.Keep != nil }

// kind returns what is known of the peer.
func (p *repair) kind() flow.Kind { return p.peer.KindAt(p.req.ep.env.now) }

// learn remembers what the peer does, also for other connections to its
// address.
func (p *repair) learn(now clock.Instant, k flow.Kind) {
	p.peer = p.peer.Learn(now, k)
	p.req.share.Remember(p.peer)
}

// sending reports whether the packets of a repair are next to be sent.
func (p *repair) sending() bool { return p.stage == repairSending }

// holding reports whether no new packets are sent: the peer is silent, or a
// NAK's repair is pending and the peer's kind is unknown.
func (p *repair) holding() bool {
	told := p.stage == repairWaiting && p.cause == causeTold && p.kind() == flow.Unknown
	return (told || p.silent) && p.req.outstanding()
}

// asks reports whether the packet at psn is the last retransmitted one, which
// requests an acknowledgement.
func (p *repair) asks(psn ib.PSN) bool { return p.sending() && psn.Next() == p.until }

// sentUpTo returns the first packet that was not sent since sending went back.
func (p *repair) sentUpTo() ib.PSN {
	if p.sending() {
		return p.goOn
	}
	return p.req.psn
}

// land marks packets before psn as no longer in flight: they have arrived or are
// lost.
func (p *repair) land(psn ib.PSN) {
	n, m := psn.Diff(p.landed), p.sentUpTo().Diff(p.landed)
	if n = min(n, m); n <= 0 {
		return
	}
	p.req.share.Landed(uint32(n), uint32(m))
	p.landed = p.landed.Add(uint32(n))
}

// startLanding starts the in-flight estimate: all packets sent so far count as
// delivered over the next round trip.
func (p *repair) startLanding(now clock.Instant) {
	p.landing = flow.NewLanding(p.landed, p.sentUpTo(), now, p.req.rtt.Smoothed())
	p.step(now)
}

// stopLanding ends the estimate; acknowledgements count again.
func (p *repair) stopLanding() {
	p.landing = flow.Landing{}
	p.req.ep.timers[timerLanding] = clock.Never
}

// step updates the in-flight estimate.
func (p *repair) step(now clock.Instant) {
	psn, next := p.landing.At(now, p.landed)
	p.land(psn)
	p.req.ep.timers[timerLanding] = next
}

// possible reports whether selective retransmission is possible for this cause.
// After a NAK it needs a peer that is not known to be go-back-N; gaps in the
// responses are on this side, whatever the peer is.
func (p *repair) possible(c repairCause) bool {
	sent := p.req.psn != p.req.una || p.sending()
	return sent && p.on() && (c != causeTold || p.kind() != flow.Drops)
}

// begin makes the oldest n packets that are not acknowledged the next to be
// sent.
func (p *repair) begin(n uint32, c repairCause) {
	r := p.req
	if !p.sending() {
		p.resume, p.goOn = r.next, r.psn
	}
	p.certain = c != causeProbe || p.certain && p.stage != repairNone && p.first == r.una
	p.first = r.una
	if p.until = r.una.Add(n); p.until.Diff(p.goOn) > 0 {
		p.until = p.goOn
	}
	p.stage, p.cause, p.run = repairSending, c, p.until.Distance(r.una)
	p.data, p.stopped = p.reads(), false
	p.silent = p.silent && c == causeProbe
	p.read.hole = p.data && r.end.comp.early.holds()
	r.rtt.Cancel() // the gap holds the answer back
	r.goTo(r.una)
	r.end.Wake()
}

// reads reports whether the oldest packet belongs to a READ or an atomic.
func (p *repair) reads() bool {
	return !p.req.drained() && p.req.queue.oldest().kind == begunAnswered
}

// missing handles a report that the oldest n packets are missing, or that one
// is and possibly more. If the packets right after a repair are missing too,
// the next repair is twice as long. If gaps open faster than they close, at one
// per round trip, a smaller window shortens the peer's queue and so the round
// trip.
func (p *repair) missing(now clock.Instant, n uint32, c repairCause) {
	r := p.req
	if p.stage == repairWaiting {
		past := r.una.Diff(p.until)
		if past > 0 {
			p.closed(now)
		} else if past == 0 && c == causeTold && p.cause == causeTold {
			n = 2 * p.run
		}
		if past >= 0 && r.rtt.Queued() {
			r.share.Crowded(ackRun * int(flow.PacketCost(uint32(r.ep.mtu))))
		}
	}
	p.begin(n, c)
	r.share.Lost(p.run)
	if c == causeTold && p.kind() == flow.Keeps {
		p.startLanding(now)
	}
}

// again sends the oldest n packets once more without a NAK.
func (p *repair) again(n uint32, cause string) {
	p.begin(n, causeProbe)
	p.req.traceBack(trace.Repair, cause)
}

// sent continues with new packets after the last packet of a repair was sent or
// acknowledged.
func (p *repair) sent(now clock.Instant) {
	r := p.req
	if !p.sending() || r.psn.Diff(p.until) < 0 {
		return
	}
	p.stage, p.at = repairWaiting, now
	if p.until.Diff(r.una) <= 0 {
		p.stage = repairNone // acknowledgement has overtaken it
	}
	p.until = r.psn // a READ uses several PSNs
	r.psn = p.goOn
	if r.next = p.resume; int32(r.next-r.queue.Cons()) < 0 {
		r.next = r.queue.Cons()
	}
	if r.psn.Diff(r.una) < 0 { // the packets to retransmit have been acknowledged
		r.psn, r.read.restart = r.una, r.una
		r.seek()
	}
	p.startProbe(now)
}

// advanced notes progress: the peer acknowledged up to una, so it is not
// silent.
func (p *repair) advanced(una ib.PSN) {
	p.silent = false
	if una.Diff(p.landed) > 0 {
		p.landed = una
	}
}

// judge evaluates the answer just received.
func (p *repair) judge(now clock.Instant) {
	r := p.req
	if p.stage != repairWaiting || !r.ep.behaviour().takesResponses() {
		return
	}
	switch past := r.una.Diff(p.until); {
	case past > 0:
		if p.closed(now) && r.una.Diff(p.goOn) < 0 {
			p.again(1, "more is missing")
			r.share.Lost(1)
		}
	case r.una.Diff(p.goOn) >= 0:
		p.stage = repairNone // everything sent is acknowledged, so the answer shows nothing
	case past < 0, r.rtt.TooSoon(now.Sub(p.at)), p.stopped:
		// The answer precedes the repair, or waits for settled.
	case p.cause == causeHole, p.cause == causeTold && p.data && p.kind() == flow.Keeps:
		p.stage = repairNone
	case p.data, p.cause == causeProbe && p.kind() != flow.Keeps:
		// More answers may be on their way: those to READs come one by one, and
		// so do those of a peer that was late.
		p.stopped = true
		r.ep.timers[timerLoss] = now.Add(r.rtt.Settled())
	default:
		p.wentNoFurther(now)
	}
}

// closed ends a repair when the peer has acknowledged more than was
// retransmitted. It reports whether that was the answer to the repair: then all
// earlier packets have arrived or are lost.
func (p *repair) closed(now clock.Instant) (answered bool) {
	r, age, late := p.req, now.Sub(p.at), p.stopped && !p.data
	p.stage, p.stopped = repairNone, false
	p.stopLanding()
	switch p.cause {
	case causeTold:
		p.learn(now, flow.Keeps)
		if answered = !r.rtt.TooSoon(age); answered && !p.data {
			r.rtt.Sample(age)
		}
	case causeProbe:
		nothing := r.una.Diff(p.goOn) >= 0 && p.goOn != p.until // was missing: the peer had everything
		early := (nothing || r.rtt.TooSoon(age)) && r.rtt.Calm()
		if late = !p.certain && (late || early); late {
			r.rtt.Spurious()
		}
		answered = !late && (age >= r.rtt.Smoothed() || p.kind() == flow.Keeps && !r.rtt.TooSoon(age))
	case causeHole:
	}
	// Retransmitted responses can overtake the original ones.
	if answered = answered && !p.data && !p.reads(); answered {
		p.land(p.goOn)
	}
	return answered
}

// wentNoFurther handles an answer that acknowledges only what was
// retransmitted. After a NAK, the peer has dropped the rest; otherwise the rest
// was lost.
func (p *repair) wentNoFurther(now clock.Instant) {
	switch {
	case p.cause == causeTold && p.run == 1: // with more packets, the answer may be to an earlier copy
		p.learn(now, flow.Drops)
		p.goBack(1, "repair went no further")
	case p.kind() == flow.Keeps:
		p.again(2*p.run, "probe went no further")
		p.req.share.Lost(p.run)
	default:
		p.goBack(p.goOn.Distance(p.req.una), "probe went no further")
	}
}

// goBack goes back N: it retransmits everything, although only n packets were
// lost.
func (p *repair) goBack(n uint32, cause string) {
	p.req.share.Lost(n)
	p.req.goBack(trace.Repair, cause)
}

// refused repeats the packet that got an RNR NAK, after its wait. A
// selective-repeat peer holds the packets after it.
func (p *repair) refused() {
	p.begin(1, causeTold)
	p.land(p.goOn)
	p.stopLanding()
}

// startProbe arms the probe timeout. A queue pair with timeout code 0 waits
// forever and sends no probes.
func (p *repair) startProbe(now clock.Instant) {
	if p.on() && p.req.ep.attr.Timeout != 0 {
		wait := p.req.rtt.Timeout(p.stage == repairWaiting && p.certain)
		p.req.ep.timers[timerLoss] = now.Add(max(wait, p.req.ep.env.Settings.ProbeAfter))
	}
}

// probe sends the oldest packet again, to learn whether it has arrived. If this
// side is still retransmitting, or has not sent the awaited packet yet, the
// peer is not late, and no probe is needed.
func (p *repair) probe(now clock.Instant) {
	r := p.req
	if !r.outstanding() || r.waitRNR {
		return
	}
	p.startProbe(now)
	if p.sending() || r.psn == r.una || r.end.challenge.holds() {
		r.end.Wake()
		return
	}
	if p.stopped {
		p.wentNoFurther(now)
		return
	}
	p.unanswered(now)
	r.ep.env.Counters.Probes++
	p.again(p.oldest(), "probe")
}

// oldest returns how many packets a probe repeats: one, or for a READ its known
// missing responses.
func (p *repair) oldest() uint32 {
	if p.reads() {
		return p.req.end.comp.hole()
	}
	return 1
}

// unanswered notes that the peer has not answered in time. If the peer has
// answered another queue pair since, has missed two probes in a row, or has never
// answered, its buffer holds no packets of this one any more, and other queue
// pairs may use the window.
func (p *repair) unanswered(now clock.Instant) {
	r := p.req
	if p.stage == repairWaiting && p.read.part && r.una.Diff(p.until) < 0 {
		p.read.whole = true // a partial READ request was not answered
	}
	if r.rtt.Doubtful() || r.share.HeardWithin(now, r.rtt.Timeout(false)/2) {
		p.silent = true
		p.land(p.sentUpTo())
	}
	r.rtt.Unanswered()
}

// timeout repeats the oldest packet when the retry timer of the verbs expires.
func (p *repair) timeout(now clock.Instant) {
	p.unanswered(now)
	p.begin(p.oldest(), causeProbe)
}

// cutRead returns how many of the n remaining responses of a READ chunk to
// request again: only the missing ones, if the peer is known to accept that and
// has received the original request, which an answer to it shows. Otherwise it
// requests the chunk up to its end.
func (p *repair) cutRead(n uint32, w *begunWR) uint32 {
	psn := p.req.psn
	m := p.until.Distance(psn)
	first, _ := p.req.chunk.at(w, psn)
	begun := psn != first || p.read.hole && m < n
	if p.read.part = m < n && begun && !p.read.whole && p.kind() == flow.Keeps; !p.read.part {
		return n
	}
	if !p.read.parts || w.last.Diff(p.read.end) > 0 {
		p.read.parts, p.read.end = true, w.last
	}
	return m
}
