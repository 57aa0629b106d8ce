package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

const (
	// lateAnswer is the time after a NAK from which a repeat has another cause, and the
	// silence after which an answer may come too late for the requester.
	lateAnswer = 50 * time.Millisecond
	// enough is the number of unanswered repeats that count as used-up retries.
	enough = 2
)

// conclude adds the final finding for the requests of a side.
func (c *conversation) conclude(side int) {
	id, in, detail := c.outcome(side)
	if id == numRules || id == unfinished && c.paired == "" {
		return
	}
	c.find(in, id, "%s", detail)
	if table[id].Severity == Failed {
		c.awaits(id, c.halves[side].last(), c.halves[side].overdueAfter())
	}
}

// unheard corrects the finding for a NAK that ended a request, if the NAK did not reach
// the requester, or not in time.
func (c *conversation) unheard(side int) {
	h := &c.halves[side]
	if !h.failed() {
		return
	}
	r := h.refusal()
	// The requester completes earlier requests first, and may wait for their lost answers.
	waits := h.una.Diff(r.psn) < 0 || slices.ContainsFunc(h.spoiled, func(s spoilt) bool { return s.psn.Diff(r.psn) < 0 })
	if r.effect == unharmed && r.deaf == 0 && !waits && !h.late.on && !h.doubt.leavesOpen() && h.held.overcome() {
		return
	}
	c.findings = slices.DeleteFunc(c.findings, func(f *Finding) bool { return f.id == r.rule })
	if r.effect == spoiled || r.deaf >= enough && h.held.overcome() {
		c.find(r.in, refusalUnheard, "%s: %s", table[r.rule].Name, r.detail)
		return
	}
	c.find(r.in, refusalLate, "%s: %s", table[r.rule].Name, r.detail)
	f := c.finding(refusalLate)
	f.refused, f.refusal = r.rule, r.detail
	f.requester = slices.Concat(table[r.rule].Requester, f.requester)
	f.ErrorPages = slices.Concat(table[r.rule].ErrorPages(), f.ErrorPages)
}

// untold adds findings for messages with an unknown outcome: their service has no
// answers, or the answers are not in the capture.
func (c *conversation) untold() {
	switch c.service {
	case roce.ServiceUC, roce.ServiceUD:
		a, b := c.streams[0].done.messages, c.streams[1].done.messages
		if c.packets == 0 {
			return
		}
		c.find(c.first, nothingAnswers, "%s from %v, %d from %v", count(a, "message"), c.endOf(0), b, c.endOf(1))
		f := c.findings[len(c.findings)-1]
		f.Count, f.Last = a+b, c.last.record
	default:
		if c.paired == "" && c.packets > 0 {
			c.find(c.first, oneDirection, "nothing from %v to %v", c.endOf(1), c.endOf(0))
		}
	}
}

// outcome returns the finding for the requests of a side if no more packets follow, or
// numRules if all requests were answered.
func (c *conversation) outcome(side int) (id ruleID, in instant, detail string) {
	h := &c.halves[side]
	switch {
	case !h.seen || h.failed():
		return numRules, c.last, ""
	case h.late.on:
		return answersLate, h.late.in, fmt.Sprintf("%s; the answer came %v after the last repeat", h.late.what, round(h.late.quiet))
	case h.una != h.next || h.ignored >= enough:
	case h.deferred.waiting() != nil:
		return h.deferred.waiting().outcome()
	case len(h.spoiled) > 0:
		s := h.spoiled[0]
		return answerSpoilt, s.in, fmt.Sprintf("the answer at PSN %v, in record %d", s.psn, s.in.record)
	case !h.held.overcome():
		return faultDelayed, h.held.in, fmt.Sprintf("the last of them was record %d", h.held.in.record)
	case h.doubt.strong:
		return answersDoubtful, h.doubt.in, fmt.Sprintf("the answer came %v after the last repeat", round(h.doubt.quiet))
	default:
		return numRules, c.last, ""
	}
	what := "PSN " + h.una.String()
	if len(h.ops) > 0 {
		what = h.ops[0].String()
	}
	silence := h.timeouts >= enough
	switch {
	case h.ahead && silence:
		return psnAhead, c.last, fmt.Sprintf("the first PSN that was sent is %v", h.first)
	case h.stale > 0 && silence:
		return psnBehind, c.last, fmt.Sprintf("the first PSN that was sent is %v", h.first)
	case h.rnr.on && h.una == h.rnr.psn:
		id, retry := c.notReady(side)
		return id, h.rnr.in, fmt.Sprintf("%s; %s with a timer of %v%s", what, count(h.waits.naks, "RNR NAK"), ib.RNRTimer(h.timer), retry)
	case h.nak.on && h.repeats >= enough:
		return retriesUsedUp, h.nak.in, fmt.Sprintf("%s; %s without success; the last NAK was in record %d", what, count(h.repeats, "repeat"), h.nak.in.record)
	case h.ignored >= enough && len(h.spoiled) > 0:
		return answersLost, c.last, fmt.Sprintf("%s of what was answered, from %v", count(h.ignored, "repeat"), c.ends[side].addr)
	case h.ignored >= enough:
		return answersIgnored, c.last, fmt.Sprintf("%s of what was answered, from %v", count(h.ignored, "repeat"), c.ends[side].addr)
	case silence && h.answers == 0:
		return noAnswer, c.last, fmt.Sprintf("%s; %s, to %v", what, count(h.timeouts, "repeat"), c.endOf(1-side))
	case silence && h.beyond == 0 && h.good > 0:
		return wentSilent, c.last, fmt.Sprintf("%s; %s, to %v; the last answer was in record %d", what, count(h.timeouts, "repeat"), c.endOf(1-side), h.lastGood.record)
	default:
		return unfinished, c.oldest(side), what
	}
}

// oldest returns the time of the oldest unanswered request.
func (c *conversation) oldest(side int) instant {
	if h := &c.halves[side]; len(h.ops) > 0 {
		return h.ops[0].begun
	}
	return c.last
}

const (
	forever = 7 // the rnr_retry for unlimited retries after RNR NAKs
	// maxHeeded is the maximum number of RNR NAKs in a row after which a requester
	// with limited retries repeats.
	maxHeeded = forever - 1
)

// notReady returns the finding for a requester whose last answer is an RNR NAK, and a text
// with its rnr_retry if connection managers agreed on one. A requester that waits for the
// time of the RNR NAKs gets them, and fails after too many. A requester that repeats at
// other times repeats because of its retry timer.
func (c *conversation) notReady(side int) (id ruleID, retry string) {
	w, endless := &c.halves[side].waits, false
	if known := c.rnrRetry[side]; known.ok {
		retry, endless = fmt.Sprintf(", rnr_retry %d", known.count), known.count == forever
	}
	switch endless = endless || w.heeded > maxHeeded; {
	case endless && w.other >= enough:
		return rnrUnheard, retry
	case endless:
		return rnrWaits, retry
	case w.other > 0, c.halves[side].doubt.leavesOpen():
		return rnrOrSilence, retry
	default:
		return rnrUnresolved, retry
	}
}

// round shortens a duration to a few digits.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(100 * time.Nanosecond)
	}
}
