package perf

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Report is what one side counted during a measurement, and what it looks
// like at its end.
type Report struct {
	Sent         uint64            `json:"sent"`           // packets
	Received     uint64            `json:"received"`       // packets that passed every check up to the queue pair
	Retries      uint64            `json:"retries"`        // times that sending went back
	Retransmits  uint64            `json:"retransmits"`    // packets sent again
	Timeouts     uint64            `json:"timeouts"`       // retry timers that fired
	SequenceNAKs uint64            `json:"sequence_naks"`  // received
	RNRNAKs      uint64            `json:"rnr_naks"`       // received
	ImpliedNAKs  uint64            `json:"implied_naks"`   // responses found missing
	Gaps         uint64            `json:"gaps"`           // found as responder, each answered with a sequence NAK
	Duplicates   uint64            `json:"duplicates"`     // requests that came again, as responder
	RNRNAKsSent  uint64            `json:"rnr_naks_sent"`  // as responder
	Damaged      uint64            `json:"damaged"`        // packets dropped as malformed or for their ICRC
	Flushed      uint64            `json:"flushed"`        // completions with WR_FLUSH_ERR
	ErrorsAsPeer uint64            `json:"receive_errors"` // receive completions with another error
	CQOverflow   uint64            `json:"cqe_overflow"`   // completions lost to a full CQ
	States       string            `json:"states"`         // of the queue pairs
	ExpectedPSN  string            `json:"expected_psn"`   // of the first queue pair, as responder
	Seed         uint64            `json:"fault_seed"`     // 0 without rules
	Faults       []verbs.FaultStat `json:"faults,omitempty"`
}

// fields names the counters of the adapter that a report is made of.
func (r *Report) fields() map[string]*uint64 {
	return map[string]*uint64{
		"sent_pkts": &r.Sent, "rcvd_pkts": &r.Received, "completer_retry_err": &r.Retries,
		"retrans_pkts": &r.Retransmits, "local_ack_timeout_err": &r.Timeouts, "rcvd_seq_err": &r.SequenceNAKs,
		"rcvd_rnr_err": &r.RNRNAKs, "implied_nak_seq_err": &r.ImpliedNAKs, "out_of_seq_request": &r.Gaps,
		"duplicate_request": &r.Duplicates, "send_rnr_err": &r.RNRNAKsSent, "cqe_flush": &r.Flushed,
		"resp_cqe_error": &r.ErrorsAsPeer, "cqe_overflow": &r.CQOverflow,
	}
}

// count returns what the adapter has counted since before, which may be
// empty. After it returns, what arrived before may be read.
func (s *localSide) count(before Report) (Report, error) {
	all, err := s.Device.Counters()
	if err != nil {
		return Report{}, err
	}
	r := Report{Seed: s.Device.FaultSeed(), Faults: s.Device.FaultStats()}
	fields := r.fields()
	for _, c := range all {
		if f := fields[c.Name]; f != nil {
			*f = c.Value
		}
		if c.Name == "drop_icrc_errors" || c.Name == "drop_malformed" {
			r.Damaged += c.Value
		}
	}
	for name, was := range before.fields() {
		*fields[name] -= *was
	}
	r.Damaged -= before.Damaged
	r.States, r.ExpectedPSN, err = s.states()
	return r, err
}

// states says in which states the queue pairs are, and which PSN the first of
// them waits for.
func (s *localSide) states() (states, psn string, err error) {
	count := map[ib.QPState]int{}
	for i, q := range s.qps {
		a, err := q.Query()
		if err != nil {
			return "", "", err
		}
		count[a.State]++
		if i == 0 {
			psn = a.RQPSN.String()
		}
	}
	var list []string
	for state := ib.RESET; state <= ib.ERR; state++ {
		switch n := count[state]; {
		case n > 0 && len(s.qps) == 1:
			list = append(list, state.String())
		case n > 0:
			list = append(list, fmt.Sprintf("%d in %v", n, state))
		}
	}
	return strings.Join(list, ", "), psn, nil
}

// sanitize makes what a peer sent fit to be shown.
func (r *Report) sanitize() {
	if r == nil {
		return
	}
	r.States, r.ExpectedPSN = printable(r.States), printable(r.ExpectedPSN)
	r.Faults = r.Faults[:min(len(r.Faults), maxFaults)]
	for i := range r.Faults {
		r.Faults[i].Rule = printable(r.Faults[i].Rule)
	}
}

// Bounds of what a peer can have shown.
const (
	maxFaults = 64
	maxShown  = 256 // runes
)

func printable(s string) string {
	n := 0
	return strings.Map(func(c rune) rune {
		if n++; n > maxShown {
			return -1
		}
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

// eventful reports whether there is more to say than that all went well.
func (r *Report) eventful() bool {
	return r.Seed != 0 || r.Retries+r.RNRNAKs+r.Gaps+r.RNRNAKsSent+r.Damaged+r.Duplicates != 0
}

// happenings are the counts that are worth a word, in words.
func (r *Report) happenings() string {
	var list []string
	for _, h := range [...]struct {
		n         uint64
		one, many string
	}{
		{r.Retries, "retransmission", "retransmissions"},
		{r.Retransmits, "packet sent again", "packets sent again"},
		{r.Timeouts, "timeout", "timeouts"},
		{r.SequenceNAKs, "sequence NAK received", "sequence NAKs received"},
		{r.RNRNAKs, "RNR NAK received", "RNR NAKs received"},
		{r.ImpliedNAKs, "response missing", "responses missing"},
		{r.Gaps, "gap answered with a sequence NAK", "gaps answered with a sequence NAK"},
		{r.Duplicates, "duplicate request", "duplicate requests"},
		{r.RNRNAKsSent, "RNR NAK sent", "RNR NAKs sent"},
		{r.Damaged, "damaged packet dropped", "damaged packets dropped"},
	} {
		if h.n > 0 {
			list = append(list, plural(h.n, h.one, h.many))
		}
	}
	if len(list) == 0 {
		return "nothing unusual counted"
	}
	return strings.Join(list, ", ")
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// faultLines says what each rule of a side did.
func (r *Report) faultLines(side string) string {
	if r.Seed == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  faults at the %s, seed %d:", side, r.Seed)
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "\n    %s: acted %s of %d that fitted", f.Rule, plural(f.Applied, "time", "times"), f.Matched)
		if f.Overflow > 0 {
			fmt.Fprintf(&b, ", %d packets lost to full queues", f.Overflow)
		}
	}
	return b.String()
}
