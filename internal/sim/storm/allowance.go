package storm

import (
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// The allowance per REQ in messages, and the maximum that a peer's REQs
// accumulate (C6).
const (
	perREQ  = 3
	mostREQ = 16 * perREQ
)

// allowance bounds the messages of a passive side to the peer until the peer has named the
// connection.
type allowance struct {
	limited bool
	left    int
}

// paid handles a message for a side (nil: none): a REQ adds to the allowance, and a
// message that names the connection ends the limit, since it shows that the peer receives
// the answers.
func (s *side) paid(r *reading, on cm.Input) {
	switch {
	case s == nil || s.active:
	case on == cm.MsgREQ:
		s.pay.left = min(s.pay.left+perREQ, mostREQ)
	case r.remote == s.localID:
		s.pay.limited = false
	}
}

// unpaid reports whether the allowance is exhausted.
func (s *side) unpaid() bool { return s.pay.limited && s.pay.left == 0 }

// spend checks that the allowance covers a message to the peer.
func (s *side) spend(r *reading) {
	if !s.pay.limited || s.destroyed {
		return
	}
	if s.pay.left--; s.pay.left < 0 {
		s.host.w.Fail("amplification", "adapter %d: %s sends %v to a peer that has not answered, and has sent %d for each REQ",
			s.host.Index, s, r.attr, perREQ)
	}
}

// answers reports whether a REP answers a repeated REQ and was not caused by a timer; each
// REQ has one answer.
func (e *expectation) answers(r *reading) bool {
	for i := range e.dues {
		if d := &e.dues[i]; d.attr == mad.AttrREP && d.remote == r.remote && !d.done && r.attr == mad.AttrREP {
			d.done = true
			return true
		}
	}
	return false
}

// fire fires the adapter's timers that are due.
func (h *host) fire() {
	for _, s := range h.sides {
		s.oweRepetition()
	}
	counts := h.HCA.CM().Counters()
	h.HCA.Single().Advance(h.w.Now)
	h.weighDoubts(&counts, 0)
}

// oweRepetition records the messages that the timers of this instant must send: an
// unanswered message is repeated exactly when it is due, unless the allowance is exhausted.
func (s *side) oweRepetition() {
	p := &s.repeats
	switch s.phase {
	case calling, offered, leaving, resolving:
	case up:
		if s.lap != lapAsked {
			return
		}
	default:
		return
	}
	if p.count == 0 || p.count > int(s.retries) || s.again() != s.host.w.Now || !s.alive() {
		return
	}
	if s.unpaid() {
		p.count++
		p.last = s.host.w.Now
		return
	}
	attr := p.first.Header().AttrID
	s.host.step.dues = append(s.host.step.dues, due{attr: attr, local: s.localID, why: "its timer"})
}
