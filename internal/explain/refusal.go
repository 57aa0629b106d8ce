package explain

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// maxRefusals is the maximum number of fatal NAKs of a half that are examined one by one.
const maxRefusals = 16

// refusal is a fatal NAK: one that ends a request, and with it the connection. Anyone can send
// packets from the responder's address, so it is a claim. An answer that acknowledges the
// refused request refutes it: a responder that sends a fatal NAK acknowledges nothing more.
type refusal struct {
	rule    ruleID
	in      instant
	detail  string
	psn     ib.PSN
	effect  faultEffect // effect of a fault rule on the NAK
	deaf    int         // repeats of the refused request by a requester that did not get the NAK
	naks    int         // more than one only if there are too many to examine one by one
	final   bool        // the connection was set up again, so later answers refute nothing
	stray   bool        // no request was seen before it
	msn     int         // MSN of the last other answer before it; 0 or less if there was none
	una     ib.PSN      // lowest PSN that no other answer before it acknowledges; not of a stray one
	next    ib.PSN      // PSN after the highest sent before it; not of a stray one
	skips   bool        // this NAK, and no other answer, says that skipped has no answer
	skipped ib.PSN
	after   sentAfter
}

// sentAfter is the requests that a requester sends after a fatal NAK.
type sentAfter struct {
	messages   int // begun, or missing in the capture
	from, next ib.PSN
	changed    bool // one has the PSN of an earlier one and differs from it
}

// refuted is the last fatal NAK that an answer refuted.
type refuted struct {
	on bool // the requester has sent nothing since
	in instant
}

// failed reports whether a fatal NAK ended the half and nothing refuted it.
func (h *half) failed() bool { return len(h.refusals) > 0 }

// refusal returns the last fatal NAK.
func (h *half) refusal() *refusal { return &h.refusals[len(h.refusals)-1] }

// withRefusal adds a fatal NAK to a list. If there are too many, it drops one of an earlier
// connection, or takes the new one and an earlier one for the same error as one, which an answer
// refutes that refutes both.
func withRefusal(list []refusal, r refusal) []refusal {
	if len(list) >= maxRefusals {
		if i := slices.IndexFunc(list, func(o refusal) bool { return o.final }); i >= 0 {
			list = slices.Delete(list, i, i+1)
		} else if i := slices.IndexFunc(list, func(o refusal) bool { return o.rule == r.rule }); i >= 0 {
			if o := &list[i]; r.psn.Diff(o.psn) > 0 {
				o.psn = r.psn
			}
			list[i].naks++
			return list
		}
	}
	return append(list, r)
}

// goesOn records a request with n PSNs that is sent after fatal NAKs, or after their refutation.
func (h *half) goesOn(now instant, p *roce.Packet, n uint32) {
	if h.refuted.on && now.since(h.refuted.in) >= maxReaction {
		h.refuted.on = false
	}
	changed := false
	if i := h.locate(p.BTH.PSN); i >= 0 && h.failed() {
		changed = h.ops[i].differs(p)
	}
	for i := range h.refusals {
		s := &h.refusals[i].after
		s.changed = s.changed || changed
		s.add(p, n)
	}
	for i := range h.strays {
		h.strays[i].after.add(p, n)
	}
}

// inherit takes the fatal NAKs of a conversation that becomes a part of this one. The first packet
// of this half was at began.
func (h *half) inherit(began instant, strays []refusal) {
	for _, r := range strays {
		if h.seen && began.record > r.in.record {
			r.after = sentAfter{h.done.messages + len(h.ops) + h.skipped, h.first, h.next, false}
		}
		h.strays = withRefusal(h.strays, r)
	}
}

// differs reports whether a packet with a PSN of the message begins another message.
func (o *op) differs(p *roce.Packet) bool {
	switch {
	case p.Info.Flags&roce.FlagStart == 0:
		return false
	case p.Info.Kind != o.kind:
		return true
	case p.BTH.PSN != o.first:
		return p.Info.Kind != roce.KindReadRequest // which may ask for the rest
	case p.Info.Headers&roce.HasRETH != 0:
		return p.RETH.RKey != o.rkey || p.RETH.VA != o.va || int(p.RETH.Length) != o.length
	case p.Info.Headers&roce.HasAtomicETH != 0:
		return p.AtomicETH.RKey != o.rkey || p.AtomicETH.VA != o.va
	default:
		return p.Info.Flags&roce.FlagEnd != 0 && o.whole && len(p.Payload) != o.length
	}
}

// add counts a request. If it lies before the others, a connection that was set up again begins
// with it.
func (s *sentAfter) add(p *roce.Packet, n uint32) {
	psn, begins := p.BTH.PSN, 0
	if p.Info.Flags&roce.FlagStart != 0 {
		begins = 1
	}
	switch d := psn.Diff(s.next); {
	case s.messages == 0 || psn.Diff(s.from) < 0:
		*s = sentAfter{begins, psn, psn.Add(n), s.changed}
	case d >= 0:
		s.messages += int(d) + begins
		s.next = psn.Add(n)
	}
}

// mayBeAll reports whether an answer that acknowledges a PSN, with an MSN, may come from a
// responder that has executed nothing but these requests.
func (s *sentAfter) mayBeAll(acked ib.PSN, msn ib.MSN) bool {
	return s.messages > 0 && acked.Diff(s.from) >= 0 && int(msn) <= min(s.messages, int(acked.Distance(s.from))+1)
}

// repeats reports whether the requests after a fatal NAK may be repeats of all requests of the
// connection, of which no other answer acknowledges any.
func (r *refusal) repeats() bool {
	return r.msn <= 0 && !r.after.changed && (r.stray || r.after.from.Diff(r.una) >= 0 && r.after.from.Diff(r.next) <= 0)
}

// acknowledged returns the last PSN that an answer acknowledges, if the request is in flight or
// no request was seen. Only answers with an MSN count.
func (h *half) acknowledged(p *roce.Packet) (ib.PSN, bool) {
	psn := p.BTH.PSN
	switch s := p.AETH.Syndrome; {
	case p.Info.Headers&roce.HasAETH == 0 || h.seen && !h.inFlight(psn):
		return psn, false
	case p.Info.Kind != roce.KindAck && h.seen:
		i := h.locate(psn)
		return psn, i >= 0 && h.ops[i].answered()
	case p.Info.Kind != roce.KindAck:
		return psn, true
	case s.IsRNR() || s == roce.NAKSequence:
		return psn.Prev(), true
	default:
		return psn, s.IsACK()
	}
}

// judgment is what an answer tells about an earlier fatal NAK.
type judgment uint8

const (
	open      judgment = iota // nothing
	refutes                   // the responder has not refused the request
	setUpAnew                 // it comes from another connection of the same queue pairs, or may
	either                    // it refutes the NAK or comes from another connection
)

// judge returns what an answer that acknowledges a PSN tells about a fatal NAK.
func (h *half) judge(r *refusal, acked ib.PSN, msn ib.MSN) judgment {
	d := acked.Diff(r.psn)
	switch {
	case r.final:
		return open
	case !h.seen && int(msn) < r.msn:
		return setUpAnew // or an old one that comes late
	case d < 0 || r.stray && d > maxOps:
		return open
	case !h.seen && (r.msn <= 0 || int(msn) == r.msn):
		return open
	case !h.seen:
		return refutes
	case r.stray && r.psn.Diff(h.first) < 0:
		return refutes // another connection begins at a distant PSN, or with the PSNs of the first
	case r.after.mayBeAll(acked, msn) && r.repeats():
		return either
	case r.after.mayBeAll(acked, msn):
		return setUpAnew
	default:
		return refutes
	}
}

// examine looks whether an answer refutes fatal NAKs before it. It does not for RD, whose EE
// contexts answer after a fatal NAK too.
func (c *conversation) examine(f *Follower, side int) {
	h := &c.halves[side]
	if !h.failed() && len(h.strays) == 0 || c.service == roce.ServiceRD {
		return
	}
	acked, ok := h.acknowledged(&f.pkt)
	if !ok {
		return
	}
	h.strays = c.sift(f, side, h.strays, acked)
	h.refusals = c.sift(f, side, h.refusals, acked)
	for i := range h.refusals {
		r := &h.refusals[i]
		if k := h.locate(r.psn); k >= 0 && !r.final && h.ops[k].refused.record == 0 {
			h.ops[k].refused = r.in // a refuted one is of the same message
		}
	}
}

// sift removes the fatal NAKs that an answer refutes from a list.
func (c *conversation) sift(f *Follower, side int, list []refusal, acked ib.PSN) []refusal {
	h, left := &c.halves[side], list[:0]
	for _, r := range list {
		switch h.judge(&r, acked, f.pkt.AETH.MSN) {
		case refutes:
			h.refuted = refuted{true, r.in}
			c.refute(f, side, &r, nakRefuted)
			continue
		case either:
			c.refute(f, side, &r, nakDoubtful)
			continue
		case setUpAnew:
			r.final = true
			c.renew(f, side, &r)
		}
		left = append(left, r)
	}
	return left
}

// renew ends the messages of the connection that a fatal NAK ended, when another one of the same
// queue pairs has begun.
func (c *conversation) renew(f *Follower, side int, r *refusal) {
	h, n := &c.halves[side], 0
	for r.after.messages > 0 && n < len(h.ops) && h.ops[n].first.Diff(r.after.from) < 0 {
		n++
	}
	if n > 0 {
		c.abandon(f, side, n)
		h.drop(n)
		h.una = r.after.from
	}
	if i := h.locate(r.psn); i >= 0 && h.ops[i].refused.record > 0 { // the new connection's message has its PSN
		c.tell(f, side, &h.ops[i], refused)
		h.ops[i].refused = instant{}
	}
}

// refute replaces the findings of a fatal NAK by one that says that an answer refuted it, or may have.
func (c *conversation) refute(f *Follower, side int, r *refusal, id ruleID) {
	h := &c.halves[side]
	for range r.naks {
		c.retract(r.rule)
	}
	if i := h.locate(r.psn); i >= 0 {
		h.ops[i].refused = instant{}
	}
	if r.skips {
		c.retract(answerMissing)
		if i := h.locate(r.skipped); i >= 0 {
			h.ops[i].skipped = false
		}
	}
	c.find(r.in, id, "%s: %s; record %d acknowledges it", table[r.rule].Name, r.detail, f.now.record)
	f.kept.rename(r.in.record, table[r.rule].Name, table[id].Name)
	if !slices.ContainsFunc(c.findings, func(g *Finding) bool { return g.Severity == Failed }) {
		c.ladder.grave = int(table[id].Severity) + 1
		if id == nakRefuted {
			c.revive(f)
		}
	}
}
