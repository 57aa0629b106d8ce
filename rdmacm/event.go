package rdmacm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// Event is an event of an ID. It and its slices belong to the receiver, which acknowledges it
// with Ack.
type Event struct {
	Type EventType
	ID   *ID
	// Listener got the CONNECT_REQUEST; ID is new then.
	Listener *ID
	// Status is 0 or says why, as on Linux: a negative errno, of REJECTED the
	// reason of the REJ, of UNREACHABLE also the status of the SIDR_REP. Where
	// librdmacm says -1 it is -1: CONNECT_ERROR and MULTICAST_ERROR.
	Status int
	// Err says the same as an error; nil for what is none. It unwraps to an
	// errno, and for REJECTED is a *RejectError.
	Err error
	// Param is that of the peer, seen from this side and ready for Accept:
	// with CONNECT_REQUEST, CONNECT_RESPONSE and, on the active side,
	// ESTABLISHED. With REJECTED it has the private data.
	Param ConnParam
	// UD is set with events of IDs of UDP and IPoIB.
	UD UDParam
	// AltPath is the path that an event of alternate paths is about.
	AltPath AltPath
	// Context is what JoinMulticast was given: MULTICAST_JOIN and
	// MULTICAST_ERROR.
	Context any

	about  *ID        // whose event it is while it waits: of CONNECT_REQUEST the listener
	source netip.Addr // of CONNECT_REQUEST: where the packet came from, whatever it says
	count  *ackCount  // what waits for the acknowledgement
	acked  bool
}

// ConnParam is what one side of a connection asks for or offers. For Connect
// and Accept a nil one stands for 7 retries of both kinds and as many READs and
// atomics as the adapter has, in Accept as many as the peer asks for.
type ConnParam struct {
	// PrivateData is what the peer's program gets with the message, padded with
	// zeros to the full length, which for REQ is 56 bytes, REP 196, REJ 148,
	// SIDR_REQ 180, SIDR_REP 136.
	PrivateData []byte
	// ResponderResources is how many READs and atomics of the peer this side
	// serves at a time; AllResources is as many as it can.
	ResponderResources uint8
	// InitiatorDepth is how many this side has outstanding.
	InitiatorDepth uint8
	FlowControl    bool
	RetryCount     uint8 // of the connecting side's packets, and the peer's too; above 7 is 7
	RNRRetryCount  uint8 // how often the peer repeats when this side has no receive; above 7 is 7, which is without limit
	// SRQ and QPN describe the QP of an ID without one of CreateQP; in events
	// the peer's.
	SRQ bool
	QPN ib.QPN
	// QKey is what Accept of an ID of UDP tells the peer; 0 takes DefaultQKey. With
	// RD it is that of the QP, as QPN; in events the peer's.
	QKey ib.QKey
	// Channel is what Connect of an ID of RD joins; nil makes a new one. With
	// CONNECT_REQUEST it is what the peer joins; for Accept it does not count.
	Channel *Channel
}

// AllResources asks for as many READs and atomics as there can be.
const AllResources = 0xff

// DefaultQKey is the Q_Key of the UD queue pairs of CreateQP, as of Linux's
// rdma_cm.
const DefaultQKey ib.QKey = 0x01234567

// UDParam says how to reach a UD queue pair, or a group.
type UDParam struct {
	PrivateData []byte
	AH          ib.AHAttr
	QPN         ib.QPN
	QKey        ib.QKey
}

// Ack acknowledges the event. Destroy and Migrate of an ID, and LeaveMulticast,
// wait for the events that were taken. A CONNECT_REQUEST counts for the
// listener. Further calls do nothing.
func (e *Event) Ack() {
	if e == nil || e.about == nil {
		return
	}
	m := e.about.m
	m.mu.Lock()
	defer m.mu.Unlock()
	e.ack()
}

// ack is Ack with m.mu held.
func (e *Event) ack() {
	if !e.acked {
		e.acked = true
		e.count.done()
	}
}

// ackCount counts events that were taken and not acknowledged. m.mu guards it.
type ackCount struct {
	open    int
	drained chan struct{} // closed when open is 0 again, if a goroutine waits for that
}

func (a *ackCount) done() {
	if a.open--; a.open == 0 && a.drained != nil {
		close(a.drained)
		a.drained = nil
	}
}

// wait returns what closes when all is acknowledged, nil if it is.
func (a *ackCount) wait() <-chan struct{} {
	if a.open == 0 {
		return nil
	}
	if a.drained == nil {
		a.drained = make(chan struct{})
	}
	return a.drained
}

// drain waits until taken, which is of ackCount.wait, closes. Of a Manager that
// is closed nobody needs to acknowledge anything.
func (m *Manager) drain(taken <-chan struct{}) {
	if taken == nil {
		return
	}
	select {
	case <-taken:
	case <-m.done:
	}
}

// RejectError is what a call gets when the peer said no. It unwraps to
// ECONNREFUSED.
type RejectError struct {
	Reason      mad.RejReason
	PrivateData []byte // of the REJ, its full length

	hint string // what to do about it; empty where that is plain
}

// Error says the reason in words and as a number, and what to do about it where
// that is not plain.
func (e *RejectError) Error() string {
	if e == nil {
		return ""
	}
	text := fmt.Sprintf("rejected by the peer: %v (%d)", e.Reason, uint16(e.Reason))
	if e.hint != "" {
		text += ": " + e.hint
	}
	return text
}

// Unwrap returns ECONNREFUSED.
func (e *RejectError) Unwrap() error { return ib.ECONNREFUSED }
