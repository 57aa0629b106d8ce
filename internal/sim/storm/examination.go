package storm

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// The times of an examination (C7): the manager asks its peer three times, and once more by
// a challenge; after that a peer that has shown to live is trusted for a while.
const (
	inquiries   = 3
	inquiryWait = 100 * time.Millisecond
	lastWait    = time.Second
	trustTime   = time.Second
)

// examination is what the oracle knows of the examination of a connection.
type examination struct {
	began   clock.Instant
	message reading // REQ or REP that is rejected at the end; without its bytes; none: attr 0
	asked   int     // inquiries sent
	last    clock.Instant
	trusted clock.Instant // since when; Never before
}

// doubt is the start of an examination in a step, or that there is one already.
type doubt struct {
	side    *side
	message reading
}

// doubts reports whether a connection that its peer has forgotten is examined before it ends:
// then the adapter must begin in this step. message is what shows it, nil for the peer's answer
// to another connection.
func (h *host) doubts(s *side, message *reading) bool {
	if !h.examines() || s.phase != up || !s.alive() {
		return false
	}
	h.step.doubt.side = s
	if message != nil {
		h.step.doubt.message = *message
		h.step.doubt.message.mad = nil
	}
	return true
}

// examines reports whether the adapter does.
func (h *host) examines() bool { return h.index%3 != 1 }

// weighDoubts compares what the manager counts with what must have happened since before: the
// examination that is due begins, and others end. to is the queue pair that a packet came for.
func (h *host) weighDoubts(before *cm.Counters, to ib.QPN) {
	w, d, k := h.w, h.step.doubt, h.hca.CM().Counters()
	h.step.doubt = doubt{}
	h.endExaminations()
	for n := k.Trusted - before.Trusted; n > 0; n-- {
		h.trust(to)
	}
	s := d.side
	begun := k.Examined - before.Examined
	switch {
	case s == nil && begun == 0:
	case s == nil || begun > 1:
		w.fail("examination", "adapter %d examines %d connections that nobody doubts", h.index, begun)
	case begun == 1:
		if e := s.exam; e != nil && !e.isOver(w.now) {
			w.fail("examination", "adapter %d: %s is examined again", h.index, s)
		}
		w.mark(markExamined)
		s.exam = &examination{began: w.now, message: d.message, trusted: clock.Never}
		h.step.dues = append(h.step.dues, due{attr: mad.AttrDREQ, local: s.localID, why: "an examination"})
	case s.exam == nil || s.exam.isOver(w.now-1): // at the last instant its timer may have to fire yet
		w.fail("examination", "adapter %d drops a message that shows %s to be forgotten, and does not examine it", h.index, s)
	}
}

// isOver reports whether the next message begins another examination.
func (e *examination) isOver(now clock.Instant) bool {
	return e.trusted != clock.Never && now >= e.trusted.Add(trustTime)
}

// undecided reports whether there is an examination that has no outcome yet.
func (e *examination) undecided() bool { return e != nil && e.trusted == clock.Never }

// next returns when the manager does something about the examination by itself.
func (e *examination) next(now clock.Instant) clock.Instant {
	switch {
	case e.isOver(now):
		return clock.Never
	case e.trusted != clock.Never:
		return e.trusted.Add(trustTime)
	case e.asked < inquiries || now < e.last.Add(inquiryWait):
		return e.last.Add(inquiryWait)
	default:
		return e.last.Add(inquiryWait + lastWait)
	}
}

// trust notes that the manager trusts a peer: the one whose packet came, or whose time is over.
func (h *host) trust(to ib.QPN) {
	w := h.w
	for _, s := range h.sides {
		e := s.exam
		if !e.undecided() {
			continue
		}
		silent := to == 0 && e.asked == inquiries && (w.now == e.last.Add(inquiryWait) || w.now == e.last.Add(inquiryWait+lastWait))
		if silent || to != 0 && s.qpn == to {
			w.mark(markTrusted)
			e.trusted = w.now
			return
		}
	}
	w.fail("examination", "adapter %d trusts a peer that has not answered, nor is its time over", h.index)
}

// inquires takes the question whether the peer knows the connection: a DREQ for a queue pair
// that nobody has. It reports false for any other message.
func (s *side) inquires(r *reading) bool {
	if r.attr != mad.AttrDREQ || queuePairOf(r) != 0 {
		return false
	}
	w, e := s.host.w, s.exam
	switch {
	case !e.undecided():
		w.fail("examination", "adapter %d asks the peer of %s whether it knows it, and does not examine it", s.host.index, s)
		return true
	case e.asked == inquiries:
		w.fail("examination", "adapter %d asks the peer of %s more than %d times", s.host.index, s, inquiries)
	case e.asked > 0 && w.now != e.last.Add(inquiryWait):
		w.fail("examination", "adapter %d asks the peer of %s at %d, and before at %d", s.host.index, s, w.now, e.last)
	}
	e.asked++
	e.last = w.now
	return true
}

// queuePairOf returns the queue pair that a DREQ names.
func queuePairOf(r *reading) ib.QPN {
	var m mad.DREQ
	m.Decode(r.mad)
	return m.RemoteQPN
}

// endExaminations finds the connections that the manager has left by itself.
func (h *host) endExaminations() {
	for _, s := range h.sides {
		if s.exam != nil && s.alive() && s.phase == up && s.conn.State() == cm.DReqSent {
			s.endExamination()
		}
	}
}

// endExamination looks at the end of a connection that was examined: its peer has said that it
// does not know it, or was silent for the whole time, which a live peer is not while the
// network is whole. The message that showed it is rejected.
func (s *side) endExamination() {
	h, w, e := s.host, s.host.w, s.exam
	w.mark(markEnded)
	silent := s.kind == reliable && e.asked == inquiries && w.now > e.last.Add(inquiryWait)
	whole := w.plan.net.loss == 0 || e.began >= w.healed
	switch {
	case e.trusted != clock.Never:
		w.fail("examination", "adapter %d ends %s, whose peer it trusts", h.index, s)
	case h.step.knowsNot != s && !silent:
		w.fail("examination", "adapter %d ends %s, whose peer has not said that it does not know it", h.index, s)
	case s.together() && (whole || h.step.knowsNot == s):
		w.fail("examination", "adapter %d ends %s, whose peer lives", h.index, s)
	}
	m := &e.message
	caller := h.ids[m.remote]
	if m.attr == mad.AttrREQ || m.attr == mad.AttrREP && caller != nil && caller.phase == calling && caller.peerAddr == m.from {
		h.step.dues = append(h.step.dues, due{attr: mad.AttrREJ, remote: m.local, why: "the end of an examination"})
	}
	s.supersede()
}
