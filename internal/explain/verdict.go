package explain

import (
	"fmt"
	"slices"
	"time"
)

// Verdict is what became of everything: what broke first, and what to do.
type Verdict struct {
	Outcome   string   `json:"outcome"`                    // clean, repaired, unknown, lost, failed; empty if no RoCEv2 packet was there
	Headline  string   `json:"headline"`                   // in a sentence
	Cause     string   `json:"cause,omitempty"`            // the rule of the finding that explains it
	Means     string   `json:"means,omitempty"`            // explanation, and its evidence
	Reason    string   `json:"reason,omitempty"`           // why exactly, as an adapter of softhca says
	Fault     string   `json:"fault,omitempty"`            // the first effect of a fault rule
	Side      string   `json:"side,omitempty"`             // where to look
	Where     string   `json:"where,omitempty"`            // addresses and queue pairs
	Record    int      `json:"record,omitempty"`           // number of the record in the file that shows it
	Requester string   `json:"requester_status,omitempty"` // completion status at the side that sent the request
	Responder string   `json:"responder_status,omitempty"` // completion status at the other side
	Programs  []string `json:"programs,omitempty"`         // statuses that programs got, as adapters of softhca say
	Try       string   `json:"try,omitempty"`              // recommended action
	Page      string   `json:"page,omitempty"`             // where the documentation describes the cause
	// ErrorPages describe the statuses, or the reason of a REJ, that the programs see.
	ErrorPages []string `json:"error_pages,omitempty"`
	// Caveats say what the capture cannot show.
	Caveats []string `json:"caveats"`
	found   *Finding // the cause; nil if there is none
}

// Told reports whether the capture shows the outcome of all its requests.
func (v *Verdict) Told() bool { return v.Outcome != Unknown.String() && v.Outcome != empty }

// empty is the outcome of a capture without any RoCEv2 packet.
const empty = "empty"

// Bad reports whether a program saw an error or a message was lost.
func (v *Verdict) Bad() bool { return v.Outcome == Failed.String() || v.Outcome == Lost.String() }

// judge returns the verdict from the sorted findings.
func (r *Report) judge() Verdict {
	switch {
	case r.Packets == 0 && len(r.Findings) == 0:
		f := newFinding(0, instant{}, noPackets, fmt.Sprintf("none of %s is one", count(r.Records, "record")))
		if r.Records == 0 {
			f.Detail = "the file has no record at all"
		}
		v := f.verdict("", r.asked)
		v.Outcome, v.Caveats = empty, r.caveats()
		return v
	case len(r.Findings) == 0:
		return Verdict{Outcome: "clean", Headline: "nothing went wrong in " + count(r.Packets, "packet") + ", and every request was answered", Fault: r.asked, Caveats: r.caveats()}
	}
	f, where := r.cause(), ""
	if f.Conversation > 0 {
		where = r.Conversations[f.Conversation-1].ends()
	}
	v := f.verdict(where, r.asked)
	v.Caveats, v.found = r.caveats(), f
	if c := r.conversationOf(f); f.Severity == Failed && r.listened < f.until && (c == nil || !c.heard) {
		v.Caveats = append(v.Caveats, "the capture ends "+gapAfter(r.listened-f.heard)+" the last packet of that end: it does not show whether that end went on")
	}
	return v
}

// conversationOf returns the conversation of a finding, nil if it has none.
func (r *Report) conversationOf(f *Finding) *Conversation {
	if f == nil || f.Conversation == 0 {
		return nil
	}
	return &r.Conversations[f.Conversation-1]
}

// Notable returns the record around which packets are worth a look: the first record of
// the gravest finding that is no gap of the capture, or else the record of the verdict.
func (r *Report) Notable() int {
	for _, f := range r.Findings {
		if f.problem() {
			return f.First
		}
	}
	return r.Verdict.Record
}

// verdict returns a verdict with the finding as its cause. where describes the two
// ends, fault the first fault that a rule made.
func (f *Finding) verdict(where, fault string) Verdict {
	if where != "" && f.Detail != "" {
		where += "; "
	}
	rule := &table[f.id]
	return Verdict{
		Outcome: f.Severity.String(), Headline: rule.Title, Cause: rule.Name, Means: rule.Means, Fault: fault, Side: rule.Side.String(), Where: where + f.Detail,
		Record: f.First, Requester: f.requester.String(), Responder: rule.Responder.String(), Try: rule.Try, Page: rule.Page(), ErrorPages: f.ErrorPages,
	}
}

// gapAfter returns the time after an event in words.
func gapAfter(d time.Duration) string {
	if d <= 0 {
		return "with"
	}
	return round(d).String() + " after"
}

// cause returns the finding that explains the outcome: the first of the gravest,
// unless an earlier change of packets on the way explains it. It avoids fault rules,
// which the verdict names separately, and refused alternate paths, which end no
// connection.
func (r *Report) cause() *Finding {
	f := r.Findings[0]
	if aside := f.id == faultAsked || f.id == faultDelayed || f.id == cmAlternateRefused; aside && len(r.Findings) > 1 && r.Findings[1].Severity == f.Severity {
		f = r.Findings[1]
	}
	if f.Severity == Repaired {
		for _, g := range r.Findings {
			if g.telling() {
				return g
			}
		}
	}
	if f.Severity != Failed {
		return f
	}
	if f.id == callFailed { // which the program may have expected
		if i := slices.IndexFunc(r.Findings, func(g *Finding) bool { return g.Severity == Failed && g.id != callFailed }); i >= 0 {
			f = r.Findings[i]
		}
	}
	for _, g := range r.Findings[1:] {
		if g.Severity == Failed && (g.id >= icrcID && g.id <= icrcSender) && g.First < f.First {
			return g
		}
	}
	return f
}

// telling reports whether a finding explains other repaired findings: changed packets
// explain losses; a migration, or an unanswered DREQ or LAP, explains the repeats before
// it. A refuted NAK is worth more attention than losses.
func (f *Finding) telling() bool {
	return f.id >= icrcID && f.id <= icrcSender || f.id == migrated || f.id == cmDREQUnanswered || f.id == cmLAPUnanswered || f.id == nakRefuted
}

// noRetriesLeft is the part of caveats about answers that are late or out of order.
const noRetriesLeft = "it had no retries left, it got RETRY_EXC_ERR"

// caveats returns what the capture cannot show.
func (r *Report) caveats() []string {
	alone, missed, late, disorder, refuted := 0, 0, time.Duration(0), false, 0
	for i := range r.Conversations {
		s := &r.Conversations[i]
		if s.Paired == "" && s.Service != "UC" {
			alone++
		}
		if s.unmatched > 0 {
			missed++
		}
		if s.heard {
			continue
		}
		if s.refuted {
			refuted++
		}
		late, disorder = max(late, s.doubt), disorder || s.disorder
	}
	c := []string{}
	add := func(is bool, text string) {
		if is {
			c = append(c, text)
		}
	}
	add(r.Truncated > 0, count(r.Truncated, "packet")+" cut off by the capture (snap length): no ICRC was checked there")
	add(alone > 0, "only one direction of "+count(alone, "connection")+" is in this capture: what seems to be missing may have passed elsewhere")
	add(missed > 0, count(missed, "connection")+" with answers to requests that are not in the capture: it missed packets, or began in the middle")
	add(late > 0, fmt.Sprintf("an answer came after %v, and its requester sent nothing more: if its timer was shorter and %s before", round(late), noRetriesLeft))
	add(disorder, "the last answers to a requester came out of order: if "+noRetriesLeft)
	add(refuted > 0, count(refuted, "requester")+" sent nothing more after a refuted NAK: an adapter that believes each NAK completes the request with an error")
	for i := range r.Clocks {
		text := r.Clocks[i].caveat()
		add(text != "", text)
	}
	add(r.Ended > 0, count(r.Ended, "connection")+" not followed to the end, as too many were open at once")
	return c
}

// ends names both ends.
func (c *Conversation) ends() string {
	return fmt.Sprintf("%s conversation %d, %s and %s", c.Service, c.ID, c.A, c.B)
}

// String returns the address and the number of the queue pair or EE context.
func (e End) String() string {
	if e.QPN == nil {
		return e.Addr
	}
	kind := "QP"
	if e.eec {
		kind = "EEC"
	}
	return fmt.Sprintf("%s %s %#06x", e.Addr, kind, *e.QPN)
}
