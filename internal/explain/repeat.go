package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// again processes a request of a side that is not new: it fills a gap, or it is a
// repeat. The request has n PSNs.
func (c *conversation) again(f *Follower, side int, n uint32) {
	h, psn := &c.halves[side], f.pkt.BTH.PSN
	if c.fill(f, side, n) {
		return
	}
	i := h.locate(psn)
	if i >= 0 {
		h.ops[i].again++
	}
	if h.failed() && f.now.since(h.refusal().in) >= maxReaction && psn.Diff(h.refusal().psn) >= 0 {
		h.refusal().deaf++
	}
	f.sight.marks |= Repeated
	c.copies.recent[1-side].forget() // the same answers may follow
	h.atomic.again = h.atomic.again || h.atomic.known && psn == h.atomic.psn
	if h.una.Diff(h.repeat.next) > 0 && f.now.since(h.lastGood) < maxReaction && !h.nak.on && !h.rnr.on {
		h.repeat.next = h.una // requests acknowledged just now need no repeat
	}
	if h.continues(f.now, psn) {
		if psn != h.repeat.next && i >= 0 && !h.ops[i].answered() { // a repeat may skip READs and atomics
			c.find(f.now, requestLostUpstream, "the repeat of PSN %v", h.repeat.next)
		}
		h.repeat.next = h.follow(i, psn, n)
		h.reread(i, psn, n)
		return
	}
	c.blame(f, side, i)
	h.reread(i, psn, n)
	h.repeat.active, h.repeat.next = true, h.follow(i, psn, n)
}

// continues reports whether a packet continues the current repeat, which may have
// lost packets itself. A request that a NAK names starts a separate repeat: a requester
// may send only that request.
func (h *half) continues(now instant, psn ib.PSN) bool {
	ahead := psn.Diff(h.repeat.next)
	return h.repeat.active && (ahead == 0 || !h.nak.on || h.nak.psn != psn) && (ahead == 0 || ahead > 0 && ahead <= maxGaps && now.since(h.lastSend) < maxReaction)
}

// ignore counts repeats from the same PSN, which was answered. It does not count a repeat
// that comes sooner than a retry timer ends: such a repeat has another cause.
func (h *half) ignore(psn ib.PSN, quiet time.Duration) {
	if quiet < maxReaction {
		return
	}
	if h.ignored == 0 || psn != h.again {
		h.again, h.ignored = psn, 0
	}
	h.ignored++
}

// follow returns the next PSN of a repeat after a packet.
func (h *half) follow(i int, psn ib.PSN, n uint32) ib.PSN {
	if i >= 0 && h.ops[i].kind == roce.KindReadRequest {
		return h.ops[i].end()
	}
	return psn.Add(n)
}

// reread records which part of a READ is requested again.
func (h *half) reread(i int, psn ib.PSN, n uint32) {
	if i >= 0 && h.ops[i].answered() {
		h.ops[i].reread(psn.Distance(h.ops[i].first), n)
	}
}

// blame adds a finding for the cause of a repeat.
func (c *conversation) blame(f *Follower, side int, i int) {
	h, psn, op := &c.halves[side], f.pkt.BTH.PSN, f.pkt.BTH.Opcode
	quiet := f.now.since(later(h.lastSend, h.lastGood))
	h.repeats++
	h.silence = max(h.silence, quiet)
	switch {
	case h.rnr.on:
		h.rnr.on, h.nak.on = false, false
		h.waits.again(f.now.since(h.rnr.in), ib.RNRTimer(h.timer), h.rnr.spoil)
		c.find(f.now, rnrWait, "%v at PSN %v came again %v after an RNR NAK with a timer of %v", op, psn, round(f.now.since(h.rnr.in)), ib.RNRTimer(h.timer))
	case h.nak.on && f.now.since(h.nak.in) > lateAnswer:
		h.nak.on = false
		h.timeouts++
		c.find(f.now, nakLost, "the NAK for PSN %v was in record %d", h.nak.psn, h.nak.in.record)
	case h.nak.on && slices.ContainsFunc(h.gaps, func(g gap) bool { return h.nak.psn.InWindow(g.from, g.n) }):
		h.nak.on = false
		c.find(f.now, requestLostUpstream, "PSN %v, twice, which the NAK in record %d asks for", h.nak.psn, h.nak.in.record)
	case h.nak.on:
		h.nak.on = false
		h.missed.on, h.missed.psn = true, h.nak.psn
		c.find(f.now, requestLost, "PSN %v, which the NAK in record %d asks for", h.nak.psn, h.nak.in.record)
	case i >= 0 && (h.ops[i].rspGap || h.ops[i].rsp > 0 && psn == h.ops[i].first.Add(h.ops[i].rsp)):
		c.find(f.now, readResponseGap, "the response at PSN %v", h.ops[i].first.Add(h.ops[i].rsp))
	case i >= 0 && h.ops[i].answered() && h.ops[i].rsp > psn.Distance(h.ops[i].first):
		c.find(f.now, readResponseLost, "from PSN %v on", psn)
	case psn.Diff(h.una) < 0 && f.pkt.Info.Kind == roce.KindReadRequest:
		h.ignore(psn, quiet)
		c.find(f.now, readResponseLost, "READ at PSN %v was answered, and came again %v later", psn, round(quiet))
	case psn.Diff(h.una) < 0:
		h.ignore(psn, quiet)
		c.find(f.now, answerLost, "%v at PSN %v was answered, and came again %v later", op, psn, round(quiet))
	case i >= 0 && h.ops[i].skipped:
		h.repeat.active = true
	case !f.sight.left && f.now.since(h.lastSend) < maxCopyDelay && h.next.Diff(psn) <= maxGaps && (i < 0 || !h.ops[i].answered()):
		c.find(f.now, requestDuplicated, "%v at PSN %v", op, psn)
	case i >= 0 && h.ops[i].answered() && quiet < maxReaction:
		c.find(f.now, answerMissing, "%v at PSN %v came again %v after an answer to another", op, psn, round(quiet))
	default:
		if h.answers == 0 && psn.Diff(h.stuck) > 0 { // the capture lacks the answer to the earlier repeats
			h.timeouts = 0
		}
		h.stuck = psn
		h.timeouts++
		c.find(f.now, timeoutRepeat, "%v at PSN %v came again after %v of silence", op, psn, round(quiet))
	}
}

// fill processes a request that fills a gap. It reports false if the request fills none.
func (c *conversation) fill(f *Follower, side int, n uint32) bool {
	h, psn := &c.halves[side], f.pkt.BTH.PSN
	k := slices.IndexFunc(h.gaps, func(g gap) bool { return psn.InWindow(g.from, g.n) })
	if k < 0 {
		return false
	}
	f.sight.marks |= Filled
	g := h.gaps[k]
	at := psn.Distance(g.from)
	h.gaps = slices.Delete(h.gaps, k, k+1)
	if at > 0 {
		h.gaps = slices.Insert(h.gaps, k, gap{g.from, at, g.in, g.asked})
	}
	if left := int(g.n) - int(at) - int(n); left > 0 && len(h.gaps) < maxGaps {
		h.gaps = slices.Insert(h.gaps, k+min(int(at), 1), gap{psn.Add(n), uint32(left), g.in, g.asked})
	}
	rule := requestLostUpstream
	if !g.asked && f.now.since(g.in) < maxReorderDelay && !(h.repeat.active && psn == h.repeat.next) {
		rule = requestLate
	}
	c.find(f.now, rule, "PSN %v, missing since record %d, came %v later", psn, g.in.record, round(f.now.since(g.in)))
	h.insert(f, n)
	h.nak.on = false
	h.repeat.active, h.repeat.next = rule == requestLostUpstream, psn.Add(n)
	return true
}

// insert inserts a late message into those in flight.
func (h *half) insert(f *Follower, n uint32) {
	p := &f.pkt
	psn := p.BTH.PSN
	if psn.Diff(h.una) < 0 || f.full(h) {
		return
	}
	at := slices.IndexFunc(h.ops, func(o op) bool { return o.first.Diff(psn) > 0 })
	if at < 0 {
		at = len(h.ops)
	}
	if at > 0 && p.Info.Flags&roce.FlagStart == 0 && h.ops[at-1].end() == psn && !h.ops[at-1].whole {
		o := &h.ops[at-1]
		o.n, o.whole = o.n+n, p.Info.Flags&roce.FlagEnd != 0
		o.invalidates(f.now, p)
		at--
	} else {
		o := begun(f.now, p)
		o.n, o.altered = n, f.sight.altered()
		h.deferred.begins(o.src)
		h.ops = slices.Insert(h.ops, at, o)
	}
	h.join(at)
}

// join merges a message with later parts of it, which were taken for another message
// while the part between them was missing.
func (h *half) join(at int) {
	for at+1 < len(h.ops) {
		o, next := &h.ops[at], &h.ops[at+1]
		if o.whole || o.answered() || next.answered() || o.kind != next.kind || o.end() != next.first {
			return
		}
		o.n, o.whole = o.n+next.n, next.whole
		o.inv, o.invKey = next.inv, next.invKey
		if o.kind == roce.KindSend {
			o.length += next.length
		}
		h.ops = slices.Delete(h.ops, at+1, at+2)
	}
}

// later returns the later of two instants.
func later(a, b instant) instant {
	if a.at > b.at {
		return a
	}
	return b
}

// String returns the message in words, such as "WRITE of 64 bytes to 0x7f… with
// R_Key 0x0000ab at PSN 0x123450".
func (o *op) String() string {
	psn := fmt.Sprintf("at PSN %v, in record %d", o.first, o.begun.record)
	switch o.kind {
	case roce.KindSend:
		return fmt.Sprintf("SEND of %d bytes %s", o.length, psn)
	case roce.KindReadRequest:
		return fmt.Sprintf("READ of %d bytes from %#x with R_Key %#08x %s", o.length, o.va, uint32(o.rkey), psn)
	default:
		return fmt.Sprintf("%v of %d bytes to %#x with R_Key %#08x %s", o.kind, o.length, o.va, uint32(o.rkey), psn)
	}
}
