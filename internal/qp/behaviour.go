package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
)

// posting is what becomes of a work request that is posted.
type posting uint8

const (
	postRefuse  posting = iota // the post fails at once with EINVAL
	postQueue                  // kept; not begun in this state
	postProcess                // kept and worked on
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

// sending is what the requester may send.
type sending uint8

const (
	sendNothing sending = iota // no request packet
	sendBegun                  // only what messages need that were begun before
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

// behaviour is what a queue pair does in a state (Q24): the rules for posting,
// for processing and for packets.
type behaviour struct {
	postRecv  posting // receive work requests, queued ones and new ones
	postSend  posting // send work requests that are not begun, and new ones
	requests  bool    // requests of the peer are executed and answered; else dropped silently
	responses bool    // responses of the peer are taken; else dropped silently
	requester sending // requests of our own that go out
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

// takesResponses reports whether arriving responses are taken.
func (b *behaviour) takesResponses() bool { return b.responses }

// sends reports whether any packet leaves in this state: the answers of the
// responder or requests of our own.
func (b *behaviour) sends() bool { return b.requests || b.requester != sendNothing }
