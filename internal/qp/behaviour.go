package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
)

// posting says how a state treats a posted work request.
type posting uint8

const (
	postRefuse  posting = iota // the post fails at once with EINVAL
	postQueue                  // queued; not started in this state
	postProcess                // queued and processed
	postFlush                  // completes with WR_FLUSH_ERR, in order
)

var postingNames = [...]string{"refuse", "queue", "process", "flush"}

// String returns the posting rule in lower case.
func (p posting) String() string {
	if int(p) < len(postingNames) {
		return postingNames[p]
	}
	return fmt.Sprintf("posting(%d)", uint8(p))
}

// sending says which packets the requester may send.
type sending uint8

const (
	sendNothing sending = iota // no request packet
	sendBegun                  // only packets of messages that it has already started
	sendAll
)

var sendingNames = [...]string{"nothing", "begun", "all"}

// String returns the range in lower case.
func (s sending) String() string {
	if int(s) < len(sendingNames) {
		return sendingNames[s]
	}
	return fmt.Sprintf("sending(%d)", uint8(s))
}

// behaviour holds the rules of one QP state for posting, processing and packets
// (Q24).
type behaviour struct {
	postRecv  posting // receive work requests, queued ones and new ones
	postSend  posting // send work requests that are not begun, and new ones
	requests  bool    // the peer's requests are executed and answered; otherwise silently dropped
	responses bool    // the peer's responses are accepted; otherwise silently dropped
	requester sending // which requests this side sends
}

// behaviours is the behaviour of every state: Q4 RESET, Q6 INIT, Q7 RTR, Q8
// RTS, Q11 SQD, Q15 SQE, Q19 and Q20 ERR.
var behaviours = [ib.NumQPStates]behaviour{
	ib.RESET: {postRefuse, postRefuse, false, false, sendNothing},
	ib.INIT:  {postQueue, postRefuse, false, false, sendNothing},
	ib.RTR:   {postProcess, postRefuse, true, false, sendNothing},
	ib.RTS:   {postProcess, postProcess, true, true, sendAll},
	ib.SQD:   {postProcess, postQueue, true, true, sendBegun},
	ib.SQE:   {postProcess, postFlush, true, false, sendNothing},
	ib.ERR:   {postFlush, postFlush, false, false, sendNothing},
}

// behaviourOf returns the row of a state, which must exist.
func behaviourOf(s ib.QPState) *behaviour { return &behaviours[s] }

// takesRequests reports whether arriving requests are executed and answered.
func (b *behaviour) takesRequests() bool { return b.requests }

// takesResponses reports whether arriving responses are accepted.
func (b *behaviour) takesResponses() bool { return b.responses }

// sends reports whether any packet leaves in this state: responses, or requests
// of this side.
func (b *behaviour) sends() bool { return b.requests || b.requester != sendNothing }
