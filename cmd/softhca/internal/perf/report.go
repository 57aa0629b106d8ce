package perf

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/verbs"
)

// Report has the counters of one side during a measurement, and its state at the end.
type Report struct {
	Sent         uint64            `json:"sent"`             // packets
	Received     uint64            `json:"received"`         // packets that passed every check up to the queue pair
	Retries      uint64            `json:"retries"`          // times that sending went back
	Retransmits  uint64            `json:"retransmits"`      // retransmitted packets
	Timeouts     uint64            `json:"timeouts"`         // retry timers that fired
	SequenceNAKs uint64            `json:"sequence_naks"`    // received
	RNRNAKs      uint64            `json:"rnr_naks"`         // received
	ImpliedNAKs  uint64            `json:"implied_naks"`     // responses found missing
	Gaps         uint64            `json:"gaps"`             // found as responder, each answered with a sequence NAK
	Duplicates   uint64            `json:"duplicates"`       // repeated requests, as responder
	RNRNAKsSent  uint64            `json:"rnr_naks_sent"`    // as responder
	Damaged      uint64            `json:"damaged"`          // packets dropped as malformed or for their ICRC
	Flushed      uint64            `json:"flushed"`          // completions with WR_FLUSH_ERR
	ErrorsAsPeer uint64            `json:"receive_errors"`   // receive completions with another error
	CQOverflow   uint64            `json:"cqe_overflow"`     // completions lost to a full CQ
	States       string            `json:"states"`           // of the queue pairs
	ExpectedPSN  uint32            `json:"expected_psn"`     // of the first queue pair or the EE context, as responder
	Messages     uint64            `json:"messages"`         // received, by receives
	Migrations   uint64            `json:"migrations"`       // to alternate paths
	Seed         uint64            `json:"fault_seed"`       // 0 without rules
	Faults       []verbs.FaultStat `json:"faults,omitempty"` // fault rules at this side, and how often they acted
	// Channel is the state of the EE context, with RD.
	Channel string `json:"ee_context,omitempty"`
}

// fields maps the names of the adapter's counters to the fields of a report.
func (r *Report) fields() map[string]*uint64 {
	return map[string]*uint64{
		"sent_pkts": &r.Sent, "rcvd_pkts": &r.Received, "completer_retry_err": &r.Retries,
		"retrans_pkts": &r.Retransmits, "local_ack_timeout_err": &r.Timeouts, "rcvd_seq_err": &r.SequenceNAKs,
		"rcvd_rnr_err": &r.RNRNAKs, "implied_nak_seq_err": &r.ImpliedNAKs, "out_of_seq_request": &r.Gaps,
		"duplicate_request": &r.Duplicates, "send_rnr_err": &r.RNRNAKsSent, "cqe_flush": &r.Flushed,
		"resp_cqe_error": &r.ErrorsAsPeer, "cqe_overflow": &r.CQOverflow,
	}
}

// count returns what the adapter has counted since before, which may be empty. After
// count, the caller may read data that arrived before it.
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
	err = s.states(&r)
	return r, err
}

// states adds the states of the queue pairs, and the PSN expected by the first of them or
// by their EE context.
func (s *localSide) states(r *Report) error {
	count := map[ib.QPState]int{}
	all := s.all()
	for i, q := range all {
		a, err := q.Query()
		if err != nil {
			return err
		}
		count[a.State]++
		if i == 0 {
			r.ExpectedPSN = a.RQPSN.Value()
		}
	}
	var list []string
	for state := ib.RESET; state <= ib.ERR; state++ {
		switch n := count[state]; {
		case n > 0 && len(all) == 1:
			list = append(list, state.String())
		case n > 0:
			list = append(list, fmt.Sprintf("%d in %v", n, state))
		}
	}
	r.States = strings.Join(list, ", ")
	if s.channel == nil {
		return nil
	}
	a, err := s.channel.eec.Query()
	r.Channel, r.ExpectedPSN = a.State.String(), a.RQPSN.Value()
	return err
}

// ends describes the states of a side's queue pairs and EE context.
func (r *Report) ends() string {
	line := "its queue pairs: " + r.States
	if r.Channel != "" {
		line += "; its EE context: " + r.Channel
	}
	return line
}

// sanitize makes the report of a peer safe to print.
func (r *Report) sanitize() {
	if r == nil {
		return
	}
	r.States, r.Channel = printable.Line(r.States, maxShown), printable.Line(r.Channel, maxShown)
	r.Faults = r.Faults[:min(len(r.Faults), maxFaults)]
	for i := range r.Faults {
		r.Faults[i].Rule = printable.Line(r.Faults[i].Rule, maxShown)
	}
}

// Limits of the printed part of a peer's report.
const (
	maxFaults = 64
	maxShown  = 256 // characters of each text
)

// eventful reports whether the report has anything unusual.
func (r *Report) eventful() bool {
	return r.Seed != 0 || r.Retries+r.RNRNAKs+r.Gaps+r.RNRNAKsSent+r.Damaged+r.Duplicates+r.Migrations != 0
}

// happenings describes the counters of unusual events.
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
		{r.Migrations, "migration", "migrations"},
	} {
		if h.n > 0 {
			list = append(list, text.Count(h.n, h.one, h.many))
		}
	}
	if len(list) == 0 {
		return "nothing unusual counted"
	}
	return strings.Join(list, ", ")
}

// faultLines describes the effects of each rule of a side.
func (r *Report) faultLines(side string) string {
	if r.Seed == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  faults at the %s, seed %d:", side, r.Seed)
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "\n    %s: acted %s; %s", f.Rule, text.Count(f.Applied, "time", "times"), text.Count(f.Matched, "match", "matches"))
		if f.Overflow > 0 {
			fmt.Fprintf(&b, ", %s lost to full queues", text.Count(f.Overflow, "packet", "packets"))
		}
	}
	return b.String()
}

// ErrPeerFailed is the error of a server whose client ended with an error and reported
// it.
var ErrPeerFailed = errors.New("the client's connection failed")

// completionError is a completion with an error, or the loss of completions.
type completionError struct {
	qpn     ib.QPN
	status  ib.WCStatus
	overrun bool // the CQ overflowed: completions are lost
}

// Error names the queue pair and the status.
func (e *completionError) Error() string {
	if e.overrun {
		return "the completion queue overflowed (CQ_ERR): completions are lost"
	}
	return fmt.Sprintf("queue pair %v: a work request ended with %v", e.qpn, e.status)
}

// lost returns the error of a side that waits for lost completions, or nil if none are
// lost.
func (s *localSide) lost() error {
	if !s.cq.Overrun() {
		return nil
	}
	return &completionError{qpn: s.qps[0].QPN(), overrun: true}
}

// failure returns the error of a completion.
func failure(wc *ib.WC) error { return &completionError{qpn: wc.QPN, status: wc.Status} }

// Failure is a measurement that ended because a work request of the client failed, with
// the reports of both sides.
type Failure struct {
	Status  string  `json:"status"`            // completion status of the work request, or CQ_ERR
	QPN     ib.QPN  `json:"qpn"`               // of the client
	Stalled float64 `json:"stalled_ms"`        // from when a completion was last taken to the error
	Timeout float64 `json:"ack_timeout_ms"`    // configured
	Code    uint8   `json:"ack_timeout_code"`  // the same as the protocol codes it
	Retries uint8   `json:"retry_cnt"`         // configured
	Client  Report  `json:"client"`            // counters of the client
	Server  *Report `json:"server,omitempty"`  // nil if it could not be asked
	Problem string  `json:"problem,omitempty"` // failure that the server reported, or why it reported none

	status  ib.WCStatus
	overrun bool
}

// newFailure describes an error of the client.
func newFailure(e *completionError, p *Plan, stalled time.Duration) *Failure {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	status := e.status.String()
	if e.overrun {
		status = ib.EventCQErr.String()
	}
	return &Failure{
		Status: status, QPN: e.qpn, Stalled: ms(stalled), Timeout: ms(ib.AckTimeout(p.Timeout)),
		Code: p.Timeout, Retries: p.retryCount(), status: e.status, overrun: e.overrun,
	}
}

// Error describes what both sides saw, in several lines.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "queue pair %v failed with %s", f.QPN, f.Status)
	if f.status == ib.WCRetryExcErr {
		n := uint64(f.Retries)
		fmt.Fprintf(&b, "\n  configured: local ACK timeout %.1f ms (code %d) and %s: %s in a row make %.1f ms"+
			"\n  measured:   %.1f ms from the last success to the error", f.Timeout, f.Code, text.Count(n, "retry", "retries"),
			text.Count(n+1, "timeout", "timeouts"), f.Timeout*float64(n+1), f.Stalled)
	}
	b.WriteString("\n  requester:  " + f.requester())
	b.WriteString("\n              " + f.end())
	switch {
	case f.Server != nil:
		b.WriteString("\n  responder:  " + f.responder())
	default:
		b.WriteString("\n  responder:  no report")
	}
	if f.Problem != "" {
		b.WriteString("\n              it says: " + f.Problem)
	}
	b.WriteString(f.Client.faultLines("client"))
	if f.Server != nil {
		b.WriteString(f.Server.faultLines("server"))
	}
	return b.String()
}

// requester describes the client's requests and the answers to them.
func (f *Failure) requester() string {
	return fmt.Sprintf("sent %s, received %d; %s", text.Count(f.Client.Sent, "packet", "packets"), f.Client.Received, f.Client.happenings())
}

// end describes why the requester gave up, and the result.
func (f *Failure) end() string {
	why := map[ib.WCStatus]string{
		ib.WCRetryExcErr:    "no retry was answered; it gave up",
		ib.WCRNRRetryExcErr: "the peer was never ready to receive; it gave up",
		ib.WCRemAccessErr:   "the peer refused: NAK remote access error",
		ib.WCRemInvReqErr:   "the peer refused: NAK invalid request",
		ib.WCRemOpErr:       "the peer could not execute it: NAK remote operational error",
		ib.WCWRFlushErr:     "the queue pair had left RTS",
		ib.WCMWBindErr:      "the memory window could not be bound or invalidated",
		ib.WCRemInvRDReqErr: "the peer refused: NAK invalid RD request",
		ib.WCLocEECOpErr:    "the EE context failed during the message",
		ib.WCInvEECStateErr: "the EE context had left RTS",
	}[f.status]
	switch {
	case f.overrun:
		why = "its completion queue overflowed"
	case f.status == ib.WCRetryExcErr && f.Client.RNRNAKs > 0: // some may have been answers to retries
		why = "its retries were used up; it gave up"
	case why == "":
		why = "the work request could not be carried out"
	}
	return fmt.Sprintf("%s; %s; %s flushed", why, f.Client.ends(), text.Count(f.Client.Flushed, "other request", "other requests"))
}

// responder describes what the server saw.
func (f *Failure) responder() string {
	s := f.Server
	line := fmt.Sprintf("received %s, sent %d; %s; %s", text.Count(s.Received, "packet", "packets"), s.Sent, s.happenings(), s.ends())
	if cmp.Or(s.Channel, s.States) == ib.RTS.String() {
		line += fmt.Sprintf("; it got no error and waits for PSN %v", ib.NewPSN(s.ExpectedPSN))
	}
	return line
}
