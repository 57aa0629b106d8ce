package qp

import (
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
	req    *requester
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
func (p *repair) cutRead(n uint32, w *begunWR) uint32 {
	r := p.req
	psn := r.psn
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
func (p *repair) selective() bool {
	r := p.req
	sent := r.psn != r.una || p.stage == repairSending
	return sent && r.ep.env.Keep != nil && p.peer != peerDrops
}

// endsWith reports whether the packet at psn is the last that is sent again.
func (p *repair) endsWith(psn ib.PSN) bool {
	return p.stage == repairSending && psn.Next() == p.until
}

// repairFrom makes the oldest packets that are not acknowledged, up to until,
// the next to be sent.
func (p *repair) repairFrom(until ib.PSN, told bool) {
	r := p.req
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
func (p *repair) repairMissing(m missing) {
	r, run := p.req, uint32(1)
	if p.stage == repairWaiting && p.told && r.una == p.until {
		run = 2 * p.run
	}
	p.repairFrom(r.una.Add(max(run, m.hole)), m.told)
	p.read.hole = m.hole > 0
}

// repaired goes on with what was never sent, after the last packet of a repair
// went out or was acknowledged.
func (p *repair) repaired(now clock.Instant) {
	r := p.req
	p.stage, p.at = repairWaiting, now
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

// holding reports whether nothing new is sent, because what the peer does with
// it is not known.
func (p *repair) holding() bool {
	return p.stage == repairWaiting && p.told && p.peer == peerUnknown && p.req.outstanding()
}

// judge looks at an acknowledgement that has just been taken in.
func (p *repair) judge(now clock.Instant) {
	r := p.req
	if p.stage != repairWaiting || !r.ep.behaviour().takesResponses() {
		return
	}
	switch past := r.una.Diff(p.until); {
	case past > 0:
		p.stage = repairNone
		if p.told {
			p.learn(peerKeeps)
		}
	case past < 0, now.Sub(p.at) < r.rtt.least:
		// It is older than the repair.
	case r.una.Diff(p.goOn) >= 0:
		p.stage = repairNone
	case p.told:
		p.learn(peerDrops)
		r.goBack(trace.Repair, "repair went no further")
	case p.peer == peerKeeps:
		// More is missing, and the peer may have said so in vain.
		p.repairFrom(p.until.Add(2*p.run), false)
		r.traceBack(trace.Repair, "probe went no further")
		r.qp.wake()
	default:
		r.goBack(trace.Repair, "probe went no further")
	}
}

// learn remembers what the peer does, for other connections too.
func (p *repair) learn(k peerKind) {
	p.peer = k
	if w := p.req.share.window; w != nil {
		w.peer = k
	}
}

// startProbe starts the time after which the requester probes, if it has
// learnt how long answers take.
func (p *repair) startProbe(now clock.Instant) {
	r := p.req
	if r.rtt.least != 0 && r.ep.env.Keep != nil {
		r.ep.timers[timerLoss] = now.Add(r.rtt.timeout())
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
	if p.stage == repairSending || r.psn == r.una {
		r.qp.wake()
		return
	}
	if r.rtt.doubled < probeDouble {
		r.rtt.doubled++
	}
	if p.stage == repairWaiting && p.read.part && r.una.Diff(p.until) < 0 {
		p.read.whole = true // a request for a part of the READ was not answered
	}
	r.ep.env.Counters.Probes++
	p.repairFrom(r.una.Next(), false)
	r.traceBack(trace.Repair, "probe")
	r.qp.wake()
}
