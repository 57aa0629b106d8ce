package qp

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
)

// The peer says that a packet is missing, or says nothing. The specification's
// answer is to go back and send everything again from there; but a peer that
// keeps what comes beyond a gap, as adapters of this kind do, needs only what
// is missing. Nothing tells which kind a peer is, so the requester looks: it
// sends the missing packet, and waits. If the answer acknowledges more than
// was sent again, the peer keeps; if it stops there, the peer has dropped the
// rest, and the requester goes back, a round trip later than it might have.
// What it has learnt holds for the next gap, and for the next connection to
// that address, until the peer shows otherwise.
//
// Silence is broken by a probe: the oldest packet, sent again, asks for an
// acknowledgement. It counts as no retry: the verbs' own timer and count alone
// end a connection. When that timer runs out, what it sends is a probe too, so
// that nothing else is sent twice when the peer was only late.

// repairStage is how far the repair of a gap has come.
type repairStage uint8

const (
	repairNone    repairStage = iota
	repairSending             // psn goes from the gap up to until, then on from where it was
	repairWaiting             // for the answer
)

// repairCause is why packets are sent again, and so what the answer to them
// tells.
type repairCause uint8

const (
	causeProbe repairCause = iota // the peer is silent
	causeTold                     // the peer misses the oldest packet: it says so, in a NAK
	causeHole                     // its answers to READs and atomics have a hole
)

// repair is a requester's way of sending some packets again and not all that
// follow.
type repair struct {
	req     *requester
	peer    knowledge
	stage   repairStage
	cause   repairCause
	data    bool          // what is sent again is answered by data: a READ or an atomic
	certain bool          // the first packet is known to be lost, or the answer to it
	stopped bool          // the answer went no further than that: more is missing, or on its way
	silent  bool          // the peer left a probe unanswered: nothing new is sent
	first   ib.PSN        // the first packet that is sent again,
	until   ib.PSN        // and the first that is not
	goOn    ib.PSN        // where sending goes on: what is before it was sent
	resume  uint32        // index of the work request that goOn is in
	run     uint32        // packets that are sent again
	at      clock.Instant // when the last of them was
	landed  ib.PSN        // the oldest that may be in flight; what is before it costs nothing in the window
	landing landing
	read    readRepair
}

// landing is what takes the place of acknowledgements, which a gap holds back: a
// peer that keeps takes what was sent behind the gap out of its buffer all the
// same, a round trip after it was sent. The packets from one PSN to another,
// which were sent in the last round trip, land one after the other in the next.
type landing struct {
	from, to ib.PSN
	at       clock.Instant
	over     time.Duration // 0: nothing lands
}

// landingSteps is in how many steps a window of packets lands.
const landingSteps = 8

// readRepair is how READs are asked for again: what is missing of a READ, if the
// peer is known to take a request that ends before the first one did.
type readRepair struct {
	whole bool // it left one unanswered
	hole  bool // what is missing ends where answers have come
	part  bool // the last request asked for a part
	parts bool // parts were asked for of READs up to end: answers may end anywhere
	end   ib.PSN
}

// reset forgets what was under way, when sending begins at psn.
func (p *repair) reset(r *requester, psn ib.PSN) {
	*p = repair{req: r, peer: p.peer, landed: psn, read: readRepair{whole: p.read.whole}}
}

// end gives up what is under way: everything is sent again from psn on, since the
// peer has said something.
func (p *repair) end(psn ib.PSN) {
	p.stage, p.stopped, p.silent, p.landed = repairNone, false, false, psn
	p.stopLanding()
}

// on reports whether the adapter repairs at all.
func (p *repair) on() bool { return p.req.ep.env.Keep != nil }

// kind returns what is known of the peer.
func (p *repair) kind() peerKind { return p.peer.kindAt(p.req.ep.env.Now) }

// learn remembers what the peer does, for other connections too.
func (p *repair) learn(now clock.Instant, k peerKind) {
	p.peer = p.peer.learn(now, k)
	if w := p.req.share.peer; w != nil {
		w.known = p.peer
	}
}

// sending reports whether the packets of a repair are next to be sent.
func (p *repair) sending() bool { return p.stage == repairSending }

// holding reports whether nothing new is sent: the peer is silent, or what it
// does with it is not known.
func (p *repair) holding() bool {
	told := p.stage == repairWaiting && p.cause == causeTold && p.kind() == peerUnknown
	return (told || p.silent) && p.req.outstanding()
}

// asks reports whether the packet at psn is the last that is sent again, and so
// asks for an acknowledgement.
func (p *repair) asks(psn ib.PSN) bool { return p.sending() && psn.Next() == p.until }

// sentUpTo returns the first packet that was not sent since sending went back.
func (p *repair) sentUpTo() ib.PSN {
	if p.sending() {
		return p.goOn
	}
	return p.req.psn
}

// land says that what was sent before psn is in flight no more: the peer has it,
// or nobody has.
func (p *repair) land(psn ib.PSN) {
	n, m := psn.Diff(p.landed), p.sentUpTo().Diff(p.landed)
	if n = min(n, m); n <= 0 {
		return
	}
	p.req.share.landed(uint32(n), uint32(m))
	p.landed = p.landed.Add(uint32(n))
}

// startLanding has what was sent by now land in the next round trip.
func (p *repair) startLanding(now clock.Instant) {
	p.landing = landing{p.landed, p.sentUpTo(), now, p.req.rtt.smoothed}
	p.step(now)
}

// stopLanding leaves it to acknowledgements again.
func (p *repair) stopLanding() {
	p.landing = landing{}
	p.req.ep.timers[timerLanding] = clock.Never
}

// step takes note of what has landed by now.
func (p *repair) step(now clock.Instant) {
	l, timer := &p.landing, &p.req.ep.timers[timerLanding]
	*timer = clock.Never
	if l.over <= 0 || l.to.Diff(p.landed) <= 0 {
		return
	}
	all, passed := time.Duration(l.to.Distance(l.from)), min(now.Sub(l.at), l.over)
	p.land(l.from.Add(uint32(all * passed / l.over)))
	if passed < l.over {
		*timer = now.Add(max(l.over/landingSteps, 1))
	}
}

// possible reports whether packets may be sent again one at a time, for this
// cause. The hole is on this side, whatever the peer does.
func (p *repair) possible(c repairCause) bool {
	sent := p.req.psn != p.req.una || p.sending()
	return sent && p.on() && (c != causeTold || p.kind() != peerDrops)
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
	r.rtt.timing = false // the gap holds the answer back
	r.goTo(r.una)
	r.end.wake()
}

// reads reports whether the oldest packet is of a READ or an atomic.
func (p *repair) reads() bool {
	return !p.req.drained() && p.req.queue.oldest().kind == begunAnswered
}

// missing answers the news that n packets from the oldest on are missing, or
// that one is and maybe more. When those after a repair are missing too, twice
// as many follow. When gaps come faster than they close, one in a round trip, a
// shorter queue at the peer makes the round trip shorter.
func (p *repair) missing(now clock.Instant, n uint32, c repairCause) {
	r := p.req
	if p.stage == repairWaiting {
		past := r.una.Diff(p.until)
		if past > 0 {
			p.closed(now)
		} else if past == 0 && c == causeTold && p.cause == causeTold {
			n = 2 * p.run
		}
		if past >= 0 && r.rtt.queued() {
			r.share.window.crowded(ackRun * int(packetCost(uint32(r.ep.mtu))))
		}
	}
	p.begin(n, c)
	r.share.lost(p.run)
	if c == causeTold && p.kind() == peerKeeps {
		p.startLanding(now)
	}
}

// again sends the oldest n packets once more of the requester's own accord.
func (p *repair) again(n uint32, cause string) {
	p.begin(n, causeProbe)
	p.req.traceBack(trace.Repair, cause)
}

// sent goes on with what was never sent, after the last packet of a repair went
// out or was acknowledged.
func (p *repair) sent(now clock.Instant) {
	r := p.req
	if !p.sending() || r.psn.Diff(p.until) < 0 {
		return
	}
	p.stage, p.at = repairWaiting, now
	if p.until.Diff(r.una) <= 0 {
		p.stage = repairNone // acknowledgement has overtaken it
	}
	p.until = r.psn // a READ takes more PSNs than one
	r.psn = p.goOn
	if r.next = p.resume; int32(r.next-r.queue.Cons()) < 0 {
		r.next = r.queue.Cons()
	}
	if r.psn.Diff(r.una) < 0 { // what was to be sent again has been acknowledged
		r.psn, r.read.restart = r.una, r.una
		r.seek()
	}
	p.startProbe(now)
}

// advanced is told that the oldest packet is another one: the peer is there.
func (p *repair) advanced(una ib.PSN) {
	p.silent = false
	if una.Diff(p.landed) > 0 {
		p.landed = una
	}
}

// judge looks at an answer that has just been taken in.
func (p *repair) judge(now clock.Instant) {
	r := p.req
	if p.stage != repairWaiting || !r.ep.behaviour().takesResponses() {
		return
	}
	switch past := r.una.Diff(p.until); {
	case past > 0:
		if p.closed(now) && r.una.Diff(p.goOn) < 0 {
			p.again(1, "more is missing")
			r.share.lost(1)
		}
	case r.una.Diff(p.goOn) >= 0:
		p.stage = repairNone // nothing was sent that it could tell more of
	case past < 0, r.rtt.tooSoon(now.Sub(p.at)), p.stopped:
		// It is older than the repair, or does not matter.
	case p.cause == causeHole, p.cause == causeTold && p.data && p.kind() == peerKeeps:
		p.stage = repairNone
	case p.data, p.cause == causeProbe && p.kind() != peerKeeps:
		// More answers may be on their way: those to READs come one by one, and
		// so do those of a peer that was late.
		p.stopped = true
		r.ep.timers[timerLoss] = now.Add(r.rtt.settled())
	default:
		p.wentNoFurther(now)
	}
}

// closed ends a repair beyond which the peer has acknowledged more. It reports
// whether that was the answer to the repair: then all that was sent before it
// has arrived, or was lost.
func (p *repair) closed(now clock.Instant) (answered bool) {
	r, age, late := p.req, now.Sub(p.at), p.stopped && !p.data
	p.stage, p.stopped = repairNone, false
	p.stopLanding()
	switch p.cause {
	case causeTold:
		p.learn(now, peerKeeps)
		if answered = !r.rtt.tooSoon(age); answered && !p.data {
			r.rtt.sample(age)
		}
	case causeProbe:
		nothing := r.una.Diff(p.goOn) >= 0 && p.goOn != p.until // was missing
		early := (nothing || r.rtt.tooSoon(age)) && r.rtt.losses == 0
		if late = !p.certain && (late || early); late {
			r.rtt.spurious()
		}
		answered = !late && (age >= r.rtt.smoothed || p.kind() == peerKeeps && !r.rtt.tooSoon(age))
	case causeHole:
	}
	// Answers with data may be overtaken by those that are asked for again.
	if answered = answered && !p.data && !p.reads(); answered {
		p.land(p.goOn)
	}
	return answered
}

// wentNoFurther handles that the answer stops at what was sent again. If
// the peer had said that this was missing, it has dropped the rest; if not, the
// rest was lost.
func (p *repair) wentNoFurther(now clock.Instant) {
	switch {
	case p.cause == causeTold && p.run == 1: // of more, a copy may be what is answered
		p.learn(now, peerDrops)
		p.goBack(1, "repair went no further")
	case p.kind() == peerKeeps:
		p.again(2*p.run, "probe went no further")
		p.req.share.lost(p.run)
	default:
		p.goBack(p.goOn.Distance(p.req.una), "probe went no further")
	}
}

// goBack sends everything again, of which n packets were lost.
func (p *repair) goBack(n uint32, cause string) {
	p.req.share.lost(n)
	p.req.goBack(trace.Repair, cause)
}

// refused repeats, after the wait that the peer has asked for, the packet that it
// was not ready for. It has the others.
func (p *repair) refused() {
	p.begin(1, causeTold)
	p.land(p.goOn)
	p.stopLanding()
}

// startProbe starts the time after which the requester probes. A queue pair whose
// timer never runs out is one that waits for ever, and in silence.
func (p *repair) startProbe(now clock.Instant) {
	if p.on() && p.req.ep.attr.Timeout != 0 {
		wait := p.req.rtt.timeout(p.stage == repairWaiting && p.certain)
		p.req.ep.timers[timerLoss] = now.Add(max(wait, p.req.ep.env.Settings.ProbeAfter))
	}
}

// probe sends the oldest packet again, to learn whether it has arrived. While
// sending has gone back, or has not come to the packet that is waited for, it
// is this side that is late.
func (p *repair) probe(now clock.Instant) {
	r := p.req
	if !r.outstanding() || r.waitRNR {
		return
	}
	p.startProbe(now)
	if p.sending() || r.psn == r.una || r.end.challenge.holds() {
		r.end.wake()
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

// oldest returns how many packets a probe sends: one, and of a READ what is known
// to be missing.
func (p *repair) oldest() uint32 {
	if p.reads() {
		return p.req.end.comp.hole()
	}
	return 1
}

// unanswered takes note that the peer has not answered in time. If it has
// answered another queue pair since, or has had as long again, or never answered,
// its buffer holds nothing of this one any more: the window is for others then.
func (p *repair) unanswered(now clock.Instant) {
	r := p.req
	if p.stage == repairWaiting && p.read.part && r.una.Diff(p.until) < 0 {
		p.read.whole = true // a request for a part of the READ was not answered
	}
	if r.rtt.doubled > 0 || r.rtt.least == 0 || now.Sub(r.share.peer.heard) < r.rtt.timeout(false)/2 {
		p.silent = true
		p.land(p.sentUpTo())
	}
	r.rtt.doubled = min(r.rtt.doubled+1, probeDouble)
}

// timeout repeats the oldest packet when the verbs' own timer has run out.
func (p *repair) timeout(now clock.Instant) {
	p.unanswered(now)
	p.begin(p.oldest(), causeProbe)
}

// cutRead returns how many of the n responses that are left of a chunk of a
// READ are asked for again: those that are missing, if the peer is known to take
// that, and has the request, since an answer to it has come. Else the request is
// repeated up to its end.
func (p *repair) cutRead(n uint32, w *begunWR) uint32 {
	psn := p.req.psn
	m := p.until.Distance(psn)
	first, _ := p.req.chunk.at(w, psn)
	begun := psn != first || p.read.hole && m < n
	if p.read.part = m < n && begun && !p.read.whole && p.kind() == peerKeeps; !p.read.part {
		return n
	}
	if !p.read.parts || w.last.Diff(p.read.end) > 0 {
		p.read.parts, p.read.end = true, w.last
	}
	return m
}
