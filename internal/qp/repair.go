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
// end a connection.

// peerKind is what is known of a peer's ways with packets beyond a gap.
type peerKind uint8

const (
	peerUnknown peerKind = iota
	peerKeeps
	peerDrops
)

// repairStage is how far the repair of a gap has come.
type repairStage uint8

const (
	repairNone    repairStage = iota
	repairSending             // psn goes from the gap up to until, then on from where it was
	repairWaiting             // for the answer
)

// repair is a requester's way of sending some packets again and not all that
// follow.
type repair struct {
	peer   peerKind
	stage  repairStage
	told   bool          // the peer has said that it misses the first packet
	until  ib.PSN        // the first packet that is not sent again
	goOn   ib.PSN        // where sending goes on: what is before it was sent
	resume uint32        // index of the work request that goOn is in
	run    uint32        // packets that are sent again
	at     clock.Instant // when the last of them was
	read   readRepair
}

// readRepair is how READs are asked for again: what is missing of a READ, as
// far as the peer takes a request that ends before the first one did.
type readRepair struct {
	whole bool // it does not
	hole  bool // what is missing ends where answers have come
	part  bool // the last request asked for a part
	parts bool // parts were asked for of READs up to end: answers may end anywhere
	end   ib.PSN
}

// cutRead returns how many of the n responses that are left of a chunk of a
// READ are asked for again: those that are missing, if the peer has the request,
// since an answer to it has come. Else the request is repeated as it was.
func (r *requester) cutRead(n uint32, w *begunWR) uint32 {
	p, psn := &r.repair, r.psn
	m := p.until.Distance(psn)
	begun := psn.Distance(w.first)%r.chunk != 0 || p.read.hole && m < n
	if p.read.part = m < n && begun && !p.read.whole; !p.read.part {
		return n
	}
	if !p.read.parts || w.last.Diff(p.read.end) > 0 {
		p.read.parts, p.read.end = true, w.last
	}
	return m
}

// selective reports whether packets may be sent again one at a time.
func (r *requester) selective() bool {
	sent := r.psn != r.una || r.repair.stage == repairSending
	return sent && r.ep.env.Keep != nil && r.repair.peer != peerDrops
}

// endsWith reports whether the packet at psn is the last that is sent again.
func (p *repair) endsWith(psn ib.PSN) bool {
	return p.stage == repairSending && psn.Next() == p.until
}

// repairFrom makes the oldest packets that are not acknowledged, up to until,
// the next to be sent.
func (r *requester) repairFrom(until ib.PSN, told bool) {
	p := &r.repair
	if p.stage != repairSending {
		p.resume, p.goOn = r.next, r.psn
	}
	if until.Diff(p.goOn) > 0 {
		until = p.goOn
	}
	p.read.hole = false
	r.rtt.timing = false // the gap holds the answer back
	p.stage, p.told, p.until, p.run = repairSending, told, until, until.Distance(r.una)
	r.goTo(r.una)
}

// missing is what is known of a loss.
type missing struct {
	told bool   // the peer misses the oldest packet: it says so, in a NAK
	hole uint32 // else so many answers are missing
}

// repairMissing answers the news of a loss. When the packets after a repair
// are missing too, twice as many follow.
func (r *requester) repairMissing(m missing) {
	run := uint32(1)
	if p := &r.repair; p.stage == repairWaiting && p.told && r.una == p.until {
		run = 2 * p.run
	}
	r.repairFrom(r.una.Add(max(run, m.hole)), m.told)
	r.repair.read.hole = m.hole > 0
}

// repaired goes on with what was never sent, after the last packet of a repair
// went out or was acknowledged.
func (r *requester) repaired(now clock.Instant) {
	p := &r.repair
	p.stage, p.at = repairWaiting, now
	r.psn = p.goOn
	if r.next = p.resume; int32(r.next-r.queue.Cons()) < 0 {
		r.next = r.queue.Cons()
	}
	if r.psn.Diff(r.una) < 0 { // what was to be sent again has been acknowledged
		r.psn, r.read.restart = r.una, r.una
		r.seek()
	}
	r.startProbe(now)
}

// holding reports whether nothing new is sent, because what the peer does with
// it is not known.
func (r *requester) holding() bool {
	return r.repair.stage == repairWaiting && r.repair.told && r.repair.peer == peerUnknown && r.outstanding()
}

// judge looks at an acknowledgement that has just been taken in.
func (r *requester) judge(now clock.Instant) {
	p := &r.repair
	if p.stage != repairWaiting || !r.ep.behaviour().takesResponses() {
		return
	}
	switch past := r.una.Diff(p.until); {
	case past > 0:
		p.stage = repairNone
		if p.told {
			r.learn(peerKeeps)
		}
	case past < 0, now.Sub(p.at) < r.rtt.least:
		// It is older than the repair.
	case r.una.Diff(p.goOn) >= 0:
		p.stage = repairNone
	case p.told:
		r.learn(peerDrops)
		r.goBack(trace.Repair, "repair went no further")
	case p.peer == peerKeeps:
		// More is missing, and the peer may have said so in vain.
		r.repairFrom(p.until.Add(2*p.run), false)
		r.traceBack(trace.Repair, "probe went no further")
		r.qp.wake()
	default:
		r.goBack(trace.Repair, "probe went no further")
	}
}

// learn remembers what the peer does, for other connections too.
func (r *requester) learn(k peerKind) {
	r.repair.peer = k
	if w := r.share.window; w != nil {
		w.peer = k
	}
}

// goBack sends everything again from the oldest packet that is not
// acknowledged.
func (r *requester) goBack(kind trace.Kind, cause string) {
	r.share.lost(true)
	r.rewind()
	r.traceBack(kind, cause)
	r.qp.wake()
}

// Bounds of the time after which a requester probes.
const (
	leastProbe  = 250 * time.Microsecond
	probeDouble = 8 // at most so often is the time doubled
)

// roundTrip is the time from a request to its acknowledgement, smoothed as RFC
// 6298 does.
type roundTrip struct {
	smoothed, variance time.Duration
	least              time.Duration // 0: none was measured yet
	timing             bool
	psn                ib.PSN // what is timed,
	at                 clock.Instant
	doubled            uint8 // probes that were not answered
}

// begin times the packet at psn, unless another one is.
func (t *roundTrip) begin(psn ib.PSN, now clock.Instant) {
	if !t.timing {
		t.timing, t.psn, t.at = true, psn, now
	}
}

// end is told what is acknowledged.
func (t *roundTrip) end(una ib.PSN, now clock.Instant) {
	t.doubled = 0
	if !t.timing || una.Diff(t.psn) <= 0 {
		return
	}
	t.timing = false
	d := max(now.Sub(t.at), 1)
	if t.least == 0 {
		t.smoothed, t.variance, t.least = d, d/2, d
		return
	}
	t.variance += ((t.smoothed - d).Abs() - t.variance) / 4
	t.smoothed += (d - t.smoothed) / 8
	t.least = min(t.least, d)
}

// timeout returns how long an answer is waited for before a probe.
func (t *roundTrip) timeout() time.Duration {
	return max(2*t.smoothed, t.smoothed+4*t.variance, leastProbe) << t.doubled
}

// startProbe starts the time after which the requester probes, if it has
// learnt how long answers take.
func (r *requester) startProbe(now clock.Instant) {
	if r.rtt.least != 0 && r.ep.env.Keep != nil {
		r.ep.timers[timerLoss] = now.Add(r.rtt.timeout())
	}
}

// probe sends the oldest packet again, to learn whether it has arrived. While
// sending has gone back, or has not come to the packet that is waited for, it
// is this side that is late.
func (r *requester) probe(now clock.Instant) {
	if !r.outstanding() || r.waitRNR {
		return
	}
	r.startProbe(now)
	if r.repair.stage == repairSending || r.psn == r.una {
		r.qp.wake()
		return
	}
	if r.rtt.doubled < probeDouble {
		r.rtt.doubled++
	}
	p := &r.repair
	if p.stage == repairWaiting && p.read.part && r.una.Diff(p.until) < 0 {
		p.read.whole = true // a request for a part of the READ was not answered
	}
	r.ep.env.Counters.Probes++
	r.repairFrom(r.una.Next(), false)
	r.traceBack(trace.Repair, "probe")
	r.qp.wake()
}
