package explain

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// answer processes an answer to the requests of a side.
func (c *conversation) answer(f *Follower, side int) {
	h, p := &c.halves[side], &f.pkt
	h.answers++
	if !h.seen {
		h.beyond++
		c.unasked(f, side)
		return
	}
	h.refine(c.mtu, p)
	h.spoil(f)
	c.examine(f, side)
	switch p.Info.Kind {
	case roce.KindReadResponse:
		c.response(f, side)
	case roce.KindAtomicAck:
		c.atomicAnswer(f, side)
	default:
		c.acknowledge(f, side)
	}
}

// spoil records an answer that a fault rule lost or changed, or calls makeGood for an intact
// one. An answer that reached the requester once is not missing when a copy is lost.
func (h *half) spoil(f *Follower) {
	psn, own := f.pkt.BTH.PSN, f.pkt.Info.Kind != roce.KindAck
	if f.sight.effect == delayed {
		h.held.note(f.now)
	}
	switch {
	case f.sight.effect != spoiled:
		if own {
			h.intact.add(psn)
		}
		h.makeGood(psn)
	case own && h.intact.has(psn):
	case len(h.spoiled) < maxGaps:
		h.spoiled = append(h.spoiled, spoilt{psn, own, f.now})
	}
}

// makeGood forgets the spoilt answers that an answer with this PSN replaces. When none is
// left, the requester has every answer for which it repeated requests.
func (h *half) makeGood(psn ib.PSN) {
	if len(h.spoiled) == 0 {
		return
	}
	h.spoiled = slices.DeleteFunc(h.spoiled, func(s spoilt) bool { return s.psn == psn || !s.own && s.psn.Diff(psn) <= 0 })
	if len(h.spoiled) == 0 {
		h.ignored = 0
	}
}

// unasked processes an answer to requests of a side that are not in the capture.
func (c *conversation) unasked(f *Follower, side int) {
	p, h := &f.pkt, &c.halves[side]
	c.examine(f, side)
	if p.Info.Headers&roce.HasAETH == 0 || p.Info.Kind != roce.KindAck {
		return
	}
	rule, what := accessRefused, fmt.Sprintf("the NAK for PSN %v; the requests are not in this capture", p.BTH.PSN)
	switch s := p.AETH.Syndrome; {
	case s.IsACK():
		h.msn = int(p.AETH.MSN)
		return
	case s.IsRNR():
		c.find(f.now, rnrWait, "the RNR NAK for PSN %v, with a timer of %v; the requests are not in this capture", p.BTH.PSN, ib.RNRTimer(s.Value()))
		return
	case s == roce.NAKSequence:
		c.find(f.now, sequenceNAK, "%s", what)
		return
	case s == roce.NAKInvalidRequest:
		rule = invalidRequest
	case s == roce.NAKRemoteOperational:
		rule = operationalError
	case s != roce.NAKRemoteAccess:
		return
	}
	c.find(f.now, rule, "%s", what)
	h.strays = withRefusal(h.strays, refusal{rule: rule, in: f.now, detail: what, psn: p.BTH.PSN, naks: 1, stray: true, msn: h.msn})
}

// refine corrects the guessed length of the last READ when the path MTU becomes
// known, or when the READ has a single response.
func (h *half) refine(mtu int, p *roce.Packet) {
	if len(h.ops) == 0 || !h.ops[len(h.ops)-1].vague {
		return
	}
	o := &h.ops[len(h.ops)-1]
	switch {
	case mtu != 0:
		o.n = min(uint32(o.length-1)/uint32(mtu)+1, maxJump)
	case p.Info.Kind == roce.KindReadResponse && p.Info.Payload == roce.PayloadUpToMTU && p.BTH.PSN == o.first:
		o.n = 1
	default:
		return
	}
	o.vague, h.next = false, o.end()
}

// overtaken records an answer that arrives after the requester must have given up, or may have.
func (h *half) overtaken(now instant) {
	if len(h.ops) == 0 || h.rnr.on {
		return
	}
	quiet := now.since(h.lastSend)
	if h.timeouts >= enough && quiet >= max(overdueFactor*h.silence, lateAnswer) {
		h.late = late{true, now, quiet, h.ops[0].String()}
		return
	}
	if quiet = now.since(later(h.lastSend, h.lastGood)); quiet < maxReaction || quiet <= max(h.doubt.borne, h.doubt.quiet) {
		return
	}
	h.doubt.quiet, h.doubt.in = quiet, now
	h.doubt.due = h.doubt.due || h.timeouts > 0 && quiet >= backoffFactor*h.silence
	h.doubt.strong = h.doubt.due && h.doubt.quiet >= lateAnswer
}

// progress records a good answer.
func (h *half) progress(now instant) {
	h.overtaken(now)
	h.good++
	h.lastGood = now
	h.timeouts, h.ignored, h.silence = 0, 0, 0
}

// acknowledge processes an ACK or a NAK.
func (c *conversation) acknowledge(f *Follower, side int) {
	h, p := &c.halves[side], &f.pkt
	psn, syndrome := p.BTH.PSN, p.AETH.Syndrome
	defer func() { h.msn = int(p.AETH.MSN) }()
	if !syndrome.IsACK() {
		c.copies.recent[side].forget() // a request repeated because of a NAK is no copy
	}
	switch {
	case psn.Diff(h.una) < 0 || psn.Diff(h.next) >= 0:
		h.outside(p)
	case syndrome.IsACK():
		h.progress(f.now)
		c.complete(f, side, psn.Next())
	case syndrome.IsRNR():
		h.overtaken(f.now)
		h.good++
		h.lastGood = f.now
		h.timeouts, h.silence = 0, 0 // the responder is alive
		c.complete(f, side, psn)
		if h.waits.naks == 0 || h.waits.psn != psn {
			h.waits = waits{psn: psn}
		}
		h.waits.naks++
		if h.missed.on && h.missed.psn == psn { // the previous NAK followed an RNR NAK that was lost
			c.retract(requestLost)
		}
		h.missed.on = false
		h.rnr, h.timer = wait{true, psn, f.now, f.sight.effect == spoiled}, syndrome.Value()
	case syndrome == roce.NAKSequence:
		h.good++
		h.lastGood = f.now
		if !h.rnr.on { // a responder that is not ready may request the same PSN again
			c.complete(f, side, psn)
			h.nak.on, h.nak.psn, h.nak.in = true, psn, f.now
			h.ask(psn)
		}
	default:
		h.overtaken(f.now)
		c.refused(f, side, psn, syndrome)
	}
}

// outside records an answer whose PSN is not in flight.
func (h *half) outside(p *roce.Packet) {
	psn, virgin := p.BTH.PSN, p.AETH.MSN == 0 && h.done.messages == 0
	switch {
	case virgin && p.AETH.Syndrome == roce.NAKSequence && psn.Diff(h.first) < 0:
		h.ahead = true
	case virgin && p.AETH.Syndrome.IsACK() && psn.Distance(h.first) >= h.next.Distance(h.first):
		h.stale++
	case psn.Diff(h.next) >= 0:
		h.beyond++
	}
}

// ask marks a gap as named by a NAK.
func (h *half) ask(psn ib.PSN) {
	for i := range h.gaps {
		if psn.InWindow(h.gaps[i].from, h.gaps[i].n) {
			h.gaps[i].asked = true
		}
	}
}

// complete ends the messages before a PSN, up to the first one that needs a
// response of its own.
func (c *conversation) complete(f *Follower, side int, before ib.PSN) {
	h := &c.halves[side]
	if h.acked.on && h.acked.psn.Diff(before) > 0 {
		before = h.acked.psn
	}
	n := 0
	for n < len(h.ops) {
		o := &h.ops[n]
		if d := o.first.Diff(before); d > 0 || d == 0 && !o.complete() {
			break
		} else if d == 0 {
			before = o.end() // its responses came before the answer to an earlier request
		}
		if o.answered() && !o.complete() {
			if !o.skipped {
				o.skipped, h.doubt.order = true, true
				c.find(f.now, answerMissing, "%v at PSN %v, sent in record %d", o.kind, o.first, o.begun.record)
			}
			h.una = o.first
			h.acked.on, h.acked.psn = true, before
			h.drop(n)
			return
		}
		if !o.whole || o.end().Diff(before) > 0 {
			break
		}
		if o.inv.record > 0 && !h.acked.on && f.pkt.AETH.Syndrome.IsACK() && int(f.pkt.AETH.MSN) == max(h.msn, 0) {
			c.find(f.now, invalidateFailed, "PSN %v, MSN %d", o.first, f.pkt.AETH.MSN)
			o.inv = instant{}
		}
		c.finish(f, side, o)
		n++
	}
	if before.Diff(h.una) > 0 {
		h.una = before
	}
	h.acked.on = false
	h.drop(n)
	h.closed(before)
}

// finish counts a completed message.
func (c *conversation) finish(f *Follower, side int, o *op) {
	h, took := &c.halves[side], f.now.since(o.begun)
	outcome := completed
	if o.refused.record > 0 {
		outcome = refused
	}
	c.tell(f, side, o, outcome)
	f.keys.executed(c.ends[1-side].addr, o)
	h.repeats = 0
	h.deferred.ends(o.src)
	h.done.messages++
	h.done.bytes += o.moved()
	h.done.total += took
	h.done.longest = max(h.done.longest, took)
}

// drop forgets the first n messages.
func (h *half) drop(n int) {
	if n == 0 {
		return
	}
	h.ops = slices.Delete(h.ops, 0, n)
	if cap(h.ops) > 4*fewOps && len(h.ops) < cap(h.ops)/4 { // give back the memory of a burst
		h.ops = append(make([]op, 0, max(4*fewOps, 2*len(h.ops))), h.ops...)
	}
}

// closed forgets gaps before a PSN: the responder has acknowledged these requests,
// so it got them, even if the capture did not.
func (h *half) closed(before ib.PSN) {
	n := 0
	for n < len(h.gaps) && h.gaps[n].from.Add(h.gaps[n].n).Diff(before) <= 0 && !h.gaps[n].asked {
		h.beyond++
		n++
	}
	if n > 0 {
		h.gaps = h.gaps[:copy(h.gaps, h.gaps[n:])]
	}
	if h.rnr.on && h.rnr.psn.Diff(before) < 0 {
		h.rnr.on = false
	}
	if h.waits.naks > 0 && h.waits.psn.Diff(before) < 0 {
		h.waits = waits{}
	}
	if h.nak.on && h.nak.psn.Diff(before) < 0 {
		h.nak.on = false
	}
}

// locate returns the index of the message in flight with a PSN, or -1.
func (h *half) locate(psn ib.PSN) int {
	for i := range h.ops {
		if psn.InWindow(h.ops[i].first, h.ops[i].n) {
			return i
		}
	}
	return -1
}

// response processes a response to a READ, an ATOMIC WRITE or a FLUSH.
func (c *conversation) response(f *Follower, side int) {
	h, p := &c.halves[side], &f.pkt
	i := h.locate(p.BTH.PSN)
	if i < 0 || !h.ops[i].answered() {
		if i < 0 && p.BTH.PSN.Diff(h.next) >= 0 {
			h.beyond++
		}
		return
	}
	h.progress(f.now)
	c.complete(f, side, h.ops[i].first)
	if i = h.locate(p.BTH.PSN); i < 0 {
		return
	}
	o := &h.ops[i]
	o.receive(p.BTH.PSN.Distance(o.first))
	h.doubt.order = h.doubt.order || o.rspGap
	if o.rsp == o.n && i == 0 {
		c.finish(f, side, o)
		h.una = o.end()
		h.drop(1)
		if h.acked.on {
			c.complete(f, side, h.una)
		}
	}
}

// atomicAnswer processes the answer to an atomic.
func (c *conversation) atomicAnswer(f *Follower, side int) {
	h, p := &c.halves[side], &f.pkt
	psn := p.BTH.PSN
	if h.atomic.again && h.atomic.psn == psn && h.atomic.value == p.AtomicAck {
		c.find(f.now, atomicReplayed, "PSN %v, original value %#x", psn, p.AtomicAck)
	}
	i := h.locate(psn)
	if i < 0 {
		return
	}
	h.atomic.known, h.atomic.again, h.atomic.psn, h.atomic.value = true, h.atomic.again && h.atomic.psn == psn, psn, p.AtomicAck
	h.progress(f.now)
	c.complete(f, side, psn)
	if i = h.locate(psn); i >= 0 {
		h.ops[i].rsp = h.ops[i].n
		c.complete(f, side, psn.Next())
	}
}

// refused processes a NAK that ends a request.
func (c *conversation) refused(f *Follower, side int, psn ib.PSN, s roce.Syndrome) {
	h := &c.halves[side]
	r := refusal{in: f.now, psn: psn, effect: f.sight.effect, naks: 1, msn: h.msn, una: h.una, next: h.next}
	if h.failed() { // the earlier NAK may be as false as this one
		r.msn, r.una = h.refusals[0].msn, h.refusals[0].una
	}
	before := c.times(answerMissing)
	c.complete(f, side, psn)
	r.skips, r.skipped = c.times(answerMissing) > before, h.una
	rule, what, o := operationalError, "PSN "+psn.String(), &op{kind: roce.KindSend}
	if i := h.locate(psn); i >= 0 {
		o = &h.ops[i]
		what = o.String()
		if o.refused.record == 0 {
			o.refused = f.now
			h.deferred.ends(o.src)
		}
	}
	more, responder := "", c.ends[1-side].addr
	switch s {
	case roce.NAKInvalidRequest:
		rule, more = f.keys.invalid(responder, o)
	case roce.NAKRemoteAccess:
		rule, more = f.keys.access(responder, o)
	case roce.NAKRemoteOperational:
	case roce.NAKInvalidRD:
		rule = invalidRDRequest
	default:
		rule, more = unknownNAK, ": "+s.String()
	}
	what += more
	r.rule, r.detail = rule, what
	h.refusals = withRefusal(h.refusals, r)
	c.find(f.now, rule, "%s", what)
}
