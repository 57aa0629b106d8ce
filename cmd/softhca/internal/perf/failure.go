package perf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
)

// ErrPeerFailed is what a server returns when its client ended with an error
// that it told.
var ErrPeerFailed = errors.New("the client's connection failed")

// completionError is a completion that is not a success, or the news that
// none will come.
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

// lost returns the error of a side that waits for completions which will
// not come, nil if they may.
func (s *localSide) lost() error {
	if !s.cq.Overrun() {
		return nil
	}
	return &completionError{qpn: s.qps[0].QPN(), overrun: true}
}

// failure returns the error of a completion that is not a success.
func failure(wc *ib.WC) error { return &completionError{qpn: wc.QPN, status: wc.Status} }

// Failure is a measurement that ended because a work request of the client
// did not complete with success, as both sides saw it.
type Failure struct {
	Status  string  `json:"status"`
	QPN     string  `json:"qpn"`
	Stalled float64 `json:"stalled_ms"`     // from when a completion was last taken to the error
	Timeout float64 `json:"ack_timeout_ms"` // configured
	Code    uint8   `json:"ack_timeout_code"`
	Retries uint8   `json:"retry_cnt"` // configured
	Client  Report  `json:"client"`
	Server  *Report `json:"server,omitempty"`  // nil if it could not be asked
	Problem string  `json:"problem,omitempty"` // what the server said, or why it said nothing

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
		Status: status, QPN: e.qpn.String(), Stalled: ms(stalled), Timeout: ms(ib.AckTimeout(p.Timeout)),
		Code: p.Timeout, Retries: p.retryCount(), status: e.status, overrun: e.overrun,
	}
}

// Error tells the story of both sides, in several lines.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "queue pair %s failed with %s", f.QPN, f.Status)
	if f.status == ib.WCRetryExcErr {
		n := uint64(f.Retries)
		fmt.Fprintf(&b, "\n  configured: local ACK timeout %.1f ms (code %d) and %s: %s in a row make %.1f ms"+
			"\n  measured:   %.1f ms from the last success to the error", f.Timeout, f.Code, plural(n, "retry", "retries"),
			plural(n+1, "timeout", "timeouts"), f.Timeout*float64(n+1), f.Stalled)
	}
	b.WriteString("\n  requester:  " + f.requester())
	b.WriteString("\n              " + f.end())
	switch {
	case f.Server != nil:
		b.WriteString("\n  responder:  " + f.responder())
	default:
		b.WriteString("\n  responder:  nothing is known of it")
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

// requester says what the client sent and what it heard of that.
func (f *Failure) requester() string {
	return fmt.Sprintf("sent %d packets, received %d; %s", f.Client.Sent, f.Client.Received, f.Client.happenings())
}

// end says why the requester gave up and what came of it.
func (f *Failure) end() string {
	why := map[ib.WCStatus]string{
		ib.WCRetryExcErr:    "no retry brought an answer; it gave up",
		ib.WCRNRRetryExcErr: "the peer was never ready to receive; it gave up",
		ib.WCRemAccessErr:   "the peer refused: NAK remote access error",
		ib.WCRemInvReqErr:   "the peer refused: NAK invalid request",
		ib.WCRemOpErr:       "the peer could not do it: NAK remote operational error",
		ib.WCWRFlushErr:     "the queue pair had left RTS",
	}[f.status]
	switch {
	case f.overrun:
		why = "its completion queue overflowed"
	case why == "":
		why = "the work request could not be carried out"
	}
	return fmt.Sprintf("%s; its queue pairs: %s; %s flushed", why, f.Client.States, plural(f.Client.Flushed, "other request", "other requests"))
}

// responder says what the server saw of it.
func (f *Failure) responder() string {
	s := f.Server
	text := fmt.Sprintf("received %d packets, sent %d; %s; its queue pairs: %s", s.Received, s.Sent, s.happenings(), s.States)
	if s.States == ib.RTS.String() {
		text += fmt.Sprintf("; it was told nothing and waits for PSN %s", s.ExpectedPSN)
	}
	return text
}
