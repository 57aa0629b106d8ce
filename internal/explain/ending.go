package explain

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
)

const (
	// lateAnswer is when a repeat is no longer what an answer asked for.
	lateAnswer = 50 * time.Millisecond
	// enough is how many repeats without an answer are taken for the end.
	enough = 2
)

// conclude says what became of the requests of a side, as no more of them will be
// seen.
func (c *conversation) conclude(side int) {
	id, in, detail := c.outcome(side)
	switch {
	case id < numRules:
		c.find(in, id, "%s", detail)
		c.awaits(id, c.halves[side].last(), c.halves[side].patience())
	case detail != "":
		c.note(detail)
	}
}

// outcome returns what became of the requests of a side if no more of them are seen:
// a finding or, with numRules, a note.
func (c *conversation) outcome(side int) (id ruleID, in instant, detail string) {
	h := &c.halves[side]
	if !h.seen || h.failed || h.una == h.next && h.ignored < enough {
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
		return rnrUnresolved, h.rnr.in, fmt.Sprintf("%s; %s with a timer of %v", what, count(h.rnr.n, "RNR NAK"), ib.RNRTimer(h.timer))
	case h.nak.on && h.repeats >= enough:
		return retriesUsedUp, h.nak.in, fmt.Sprintf("%s; %s in vain; the last NAK was in record %d", what, count(h.repeats, "repeat"), h.nak.in.record)
	case h.ignored >= enough:
		return answersIgnored, c.last, fmt.Sprintf("%s of what was answered, from %v", count(h.ignored, "repeat"), c.ends[side].addr)
	case silence && h.answers == 0:
		return noAnswer, c.last, fmt.Sprintf("%s; %s, to QP %#06x of %v", what, count(h.timeouts, "repeat"), uint32(c.ends[1-side].qpn), c.ends[1-side].addr)
	case silence && h.beyond == 0 && h.good > 0:
		return wentSilent, c.last, fmt.Sprintf("%s; %s, to QP %#06x of %v; the last answer was in record %d", what, count(h.timeouts, "repeat"), uint32(c.ends[1-side].qpn), c.ends[1-side].addr, h.lastGood.record)
	default:
		return numRules, c.last, "requests were in flight when the capture ended: " + what
	}
}

// round shortens a duration to what people read.
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
