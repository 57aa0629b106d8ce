package storm

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// The times of an examination (C7): the manager sends its peer three inquiries, and then a
// challenge; after that a peer that proved to be alive is trusted for a while.
const (
	inquiries   = 3
	inquiryWait = 100 * time.Millisecond
	lastWait    = time.Second
	trustTime   = time.Second
)

// examination is the oracle's model of the examination of a connection.
type examination struct {
	began   clock.Instant
	message reading // the REQ or REP to reject at the end, without its bytes; attr 0: none
	asked   int     // inquiries sent
	last    clock.Instant
	trusted clock.Instant // start of the trust period; Never: not trusted
}

// doubt describes an examination that must start in this step, or already
// exists.
type doubt struct {
	side    *side
	message reading
}

// doubts reports whether a connection that its peer seems to have forgotten must be examined
// first: then the adapter must start that in this step. message is the cause, nil for the
// peer's answer to another connection.
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

// examines reports whether the adapter uses examinations.
func (h *host) examines() bool { return h.Index%3 != 1 }

// weighDoubts compares the manager's counters with the expected changes since before: the
// examination that is due starts, and others end. to is the destination queue pair of a
// packet.
func (h *host) weighDoubts(before *cm.Counters, to ib.QPN) {
	w, d, k := h.w, h.step.doubt, h.HCA.CM().Counters()
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
		w.Fail("examination", "adapter %d examines %d connections without a claim against them", h.Index, begun)
	case begun == 1:
		if e := s.exam; e != nil && !e.isOver(w.Now) {
			w.Fail("examination", "adapter %d: %s is examined again", h.Index, s)
		}
		w.Mark("examined")
		s.exam = &examination{began: w.Now, message: d.message, trusted: clock.Never}
		h.step.dues = append(h.step.dues, due{attr: mad.AttrDREQ, local: s.localID, why: "an examination"})
	case s.exam == nil || s.exam.isOver(w.Now-1): // at the last instant its timer may still have to fire
		w.Fail("examination", "adapter %d drops a message that shows %s to be forgotten, and does not examine it", h.Index, s)
	}
}

// isOver reports whether the next message starts another examination.
func (e *examination) isOver(now clock.Instant) bool {
	return e.trusted != clock.Never && now >= e.trusted.Add(trustTime)
}

// undecided reports whether an examination is in progress.
func (e *examination) undecided() bool { return e != nil && e.trusted == clock.Never }

// next returns the time of the next timer of the examination.
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

// trust records that the manager trusts a peer: the one whose packet arrived, or whose
// examination timed out.
func (h *host) trust(to ib.QPN) {
	w := h.w
	for _, s := range h.sides {
		e := s.exam
		if !e.undecided() {
			continue
		}
		silent := to == 0 && e.asked == inquiries && (w.Now == e.last.Add(inquiryWait) || w.Now == e.last.Add(inquiryWait+lastWait))
		if silent || to != 0 && s.qpn == to {
			w.Mark("trusted after all")
			e.trusted = w.Now
			return
		}
	}
	w.Fail("examination", "adapter %d trusts a peer that has not answered, nor is its time over", h.Index)
}

// inquires handles an inquiry: a DREQ for a queue pair that does not exist. It reports false
// for any other message.
func (s *side) inquires(r *reading) bool {
	if r.attr != mad.AttrDREQ || queuePairOf(r) != 0 {
		return false
	}
	w, e := s.host.w, s.exam
	switch {
	case !e.undecided():
		w.Fail("examination", "adapter %d asks the peer of %s whether it knows it, and does not examine it", s.host.Index, s)
		return true
	case e.asked == inquiries:
		w.Fail("examination", "adapter %d asks the peer of %s more than %d times", s.host.Index, s, inquiries)
	case e.asked > 0 && w.Now != e.last.Add(inquiryWait):
		w.Fail("examination", "adapter %d asks the peer of %s at %d, and before at %d", s.host.Index, s, w.Now, e.last)
	}
	e.asked++
	e.last = w.Now
	return true
}

// queuePairOf returns the queue pair that a DREQ names.
func queuePairOf(r *reading) ib.QPN {
	var m mad.DREQ
	m.Decode(r.mad)
	return m.RemoteQPN
}

// endExaminations finds the connections that the manager has ended by itself.
func (h *host) endExaminations() {
	for _, s := range h.sides {
		if s.exam != nil && s.alive() && s.phase == up && s.conn.State() == cm.DReqSent {
			s.endExamination()
		}
	}
}

// endExamination checks the end of an examined connection: its peer has answered that it does
// not know it, or was silent for the whole time, which a live peer is not on a healthy
// network. The message that caused the examination is rejected.
func (s *side) endExamination() {
	h, w, e := s.host, s.host.w, s.exam
	w.Mark("ended by an examination")
	silent := s.kind == reliable && e.asked == inquiries && w.Now > e.last.Add(inquiryWait)
	whole := w.plan.loss == 0 || e.began >= w.Net.Healed
	switch {
	case e.trusted != clock.Never:
		w.Fail("examination", "adapter %d ends %s, whose peer it trusts", h.Index, s)
	case h.step.knowsNot != s && !silent:
		w.Fail("examination", "adapter %d ends %s, whose peer has not said that it does not know it", h.Index, s)
	case s.together() && (whole || h.step.knowsNot == s):
		w.Fail("examination", "adapter %d ends %s, whose peer lives", h.Index, s)
	}
	m := &e.message
	caller := h.ids[m.remote]
	if m.attr == mad.AttrREQ || m.attr == mad.AttrREP && caller != nil && caller.phase == calling && caller.peerAddr == m.from {
		h.step.dues = append(h.step.dues, due{attr: mad.AttrREJ, remote: m.local, why: "the end of an examination"})
	}
	s.supersede()
}
