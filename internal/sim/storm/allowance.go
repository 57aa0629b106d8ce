package storm

import (
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// The messages that a REQ pays for, and the most that a peer's REQs save up (C6).
const (
	perREQ  = 3
	mostREQ = 16 * perREQ
)

// allowance is what the manager of a passive side may send to the peer before that has named
// the connection.
type allowance struct {
	limited bool
	left    int
}

// paid notes that a message came for a side, nil for none: a REQ pays, and what names the
// connection shows that the peer reads what it gets.
func (s *side) paid(r *reading, on cm.Input) {
	switch {
	case s == nil || s.active:
	case on == cm.MsgREQ:
		s.pay.left = min(s.pay.left+perREQ, mostREQ)
	case r.remote == s.localID:
		s.pay.limited = false
	}
}

// unpaid reports whether nothing may be sent to the peer.
func (s *side) unpaid() bool { return s.pay.limited && s.pay.left == 0 }

// spend looks at a message to the peer: it is paid for.
func (s *side) spend(r *reading) {
	if !s.pay.limited || s.destroyed {
		return
	}
	if s.pay.left--; s.pay.left < 0 {
		s.host.w.fail("amplification", "adapter %d: %s sends %v to a peer that has not answered, and has sent %d for each REQ",
			s.host.index, s, r.attr, perREQ)
	}
}

// answers reports whether a REP is the answer to a repeated REQ, not a timer's doing; each
// answers one.
func (e *expectation) answers(r *reading) bool {
	for i := range e.dues {
		if d := &e.dues[i]; d.attr == mad.AttrREP && d.remote == r.remote && !d.done && r.attr == mad.AttrREP {
			d.done = true
			return true
		}
	}
	return false
}

// fire lets the adapter's timers fire that are due.
func (h *host) fire() {
	for _, s := range h.sides {
		s.oweRepetition()
	}
	counts := h.hca.CM().Counters()
	h.hca.Shard().Advance(h.w.now)
	h.weighDoubts(&counts, 0)
}

// oweRepetition says what the timers of this instant must send: a message that waits for its
// answer is repeated when it is due and no later, unless the peer has not paid for it.
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
	if p.count == 0 || p.count > int(s.retries) || s.again() != s.host.w.now || !s.alive() {
		return
	}
	if s.unpaid() {
		p.count++
		p.last = s.host.w.now
		return
	}
	attr := p.first.Header().AttrID
	s.host.step.dues = append(s.host.step.dues, due{attr: attr, local: s.localID, why: "its timer"})
}
