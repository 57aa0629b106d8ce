package conformance

import (
	"syscall"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/interop/ends"
	"github.com/softhca/softhca/roce"
)

// exception is a request that meets an error, and its outcome.
type exception struct {
	name    string
	about   string
	capture string // capture of two Linux peers with the same outcome; "" if there is none
	rule    string // the requirement
	needs   string // the extension that the case uses: AtomicWrite, Flush or ""

	typ       ib.QPType
	adapt     func(*plan) // nil: the usual plan
	receives  []receive
	late      bool // the receives are posted when the first RNR NAK was seen
	destroyed bool // the responder's queue pair is destroyed before the request
	post      func(s *stand) ends.Send
	more      bool   // the capture has more messages than the case
	alone     bool   // nothing follows; otherwise a valid WRITE of 8 bytes follows
	refusal   string // our counter for the request, if our responder drops it for its headers

	linux  outcome  // outcome with two Linux peers
	newer  *outcome // with those from 6.12 on, if it differs
	ours   *answer  // our responder's answer, if it differs
	asking *outcome // our requester with a Linux responder, if it is not derived from the others
	taking *outcome // a Linux requester with our responder, if it is not derived from the others
	why    string   // why we differ
}

// receive is a receive that the responder posts.
type receive struct {
	n       uint32 // bytes
	mtus    uint32 // plus this many path MTUs
	badLKey bool
}

// outcome is what both sides see.
type outcome struct {
	asker  asker
	answer answer
}

// asker is what the requester sees.
type asker struct {
	refused  syscall.Errno // errno with which posting the request fails
	statuses []ib.WCStatus
	state    ib.QPState
}

// answer is what the responder does.
type answer struct {
	nak      roce.Syndrome // the NAK that ends the connection, or a sequence NAK; 0 is none
	at       uint32        // its PSN, counted from the first of the request
	rnr      bool          // there were RNR NAKs
	statuses []ib.WCStatus // statuses of the receives
	state    ib.QPState
	events   []ib.EventType
}

// statusOf returns the completion status for a NAK.
func statusOf(nak roce.Syndrome) ib.WCStatus {
	switch nak {
	case roce.NAKInvalidRequest:
		return ib.WCRemInvReqErr
	case roce.NAKRemoteAccess:
		return ib.WCRemAccessErr
	case roce.NAKRemoteOperational:
		return ib.WCRemOpErr
	default:
		return ib.WCSuccess
	}
}

// expected is the outcome with these two adapters. The requester's outcome is
// derived from the NAK that it gets.
func (x *exception) expected(askerOurs, responderOurs, newer bool) outcome {
	o := x.linux
	if newer && x.newer != nil {
		o = *x.newer
	}
	if askerOurs && !responderOurs && x.asking != nil {
		return *x.asking
	}
	if !askerOurs && responderOurs && x.taking != nil {
		return *x.taking
	}
	if !responderOurs || x.ours == nil {
		return o
	}
	if askerOurs && x.asking != nil {
		o = *x.asking
	}
	if o.asker.refused == 0 {
		o.answer = *x.ours
	}
	if s := statusOf(o.answer.nak); s != ib.WCSuccess {
		o.asker.statuses = refusal(s, len(o.asker.statuses))
		o.asker.state = ib.ERR
	}
	return o
}

// refusal are the statuses of a request that fails, and of the requests after
// it.
func refusal(s ib.WCStatus, n int) []ib.WCStatus {
	all := []ib.WCStatus{s}
	for len(all) < n {
		all = append(all, ib.WCWRFlushErr)
	}
	return all
}
