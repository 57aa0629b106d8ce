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
	// Listener received the CONNECT_REQUEST; ID is then a new one.
	Listener *ID
	// Status is 0 or the reason, as on Linux: a negative errno; for REJECTED the
	// reason of the REJ; for UNREACHABLE also the status of the SIDR_REP; for
	// CONNECT_ERROR and MULTICAST_ERROR -1, as in librdmacm.
	Status int
	// Err is the same reason as an error; nil if the event reports none. It unwraps
	// to an errno, and is a *RejectError for REJECTED.
	Err error
	// Param has the peer's parameters, converted to this side's view for Accept,
	// with CONNECT_REQUEST, CONNECT_RESPONSE and, on the active side, ESTABLISHED.
	// With REJECTED it has the private data.
	Param ConnParam
	// UD is set with events of IDs of UDP and IPoIB.
	UD UDParam
	// AltPath is the path of an event about alternate paths.
	AltPath AltPath
	// Context is the context of JoinMulticast, with MULTICAST_JOIN and
	// MULTICAST_ERROR.
	Context any

	about  *inbox     // has the pending event: for CONNECT_REQUEST the listener's
	source netip.Addr // of CONNECT_REQUEST: the packet's source address, not the one in its data
	count  *ackCount  // counts the event until it is acknowledged
	acked  bool
}

// ConnParam holds the parameters of one side of a connection. A nil ConnParam stands
// for 7 retries of both kinds and, in Connect, for as many READs and atomics as the
// adapter supports, in Accept for as many as the peer requests.
type ConnParam struct {
	// PrivateData is passed to the peer's program with the message, padded with
	// zeros to the full length: 56 bytes in REQ, 196 in REP, 148 in REJ, 180 in
	// SIDR_REQ, 136 in SIDR_REP.
	PrivateData []byte
	// ResponderResources is the number of READs and atomics of the peer that this
	// side serves at a time; AllResources is as many as it can.
	ResponderResources uint8
	// InitiatorDepth is the number that this side has outstanding.
	InitiatorDepth uint8
	FlowControl    bool
	RetryCount     uint8 // of the packets of both sides; values above 7 count as 7
	RNRRetryCount  uint8 // retries of the peer while this side has no receive; values above 7 count as 7, which is without limit
	// SRQ and QPN describe the QP of an ID without a QP of CreateQP; in events, the
	// peer's QP.
	SRQ bool
	QPN ib.QPN
	// QKey is the Q_Key that Accept of an ID of UDP sends to the peer; 0 stands for
	// DefaultQKey. With RD it is the Q_Key of the QP, like QPN; in events, the peer's.
	QKey ib.QKey
	// Channel is the channel that Connect of an ID of RD joins; nil creates a new
	// one. In CONNECT_REQUEST it is the channel that the peer joins. Accept ignores it.
	Channel *Channel
}

// AllResources stands for the maximum number of READs and atomics.
const AllResources = 0xff

// DefaultQKey is the Q_Key of the UD queue pairs of CreateQP, as of Linux's
// rdma_cm.
const DefaultQKey ib.QKey = 0x01234567

// UDParam is the destination of messages to a UD queue pair or to a group.
type UDParam struct {
	PrivateData []byte
	AH          ib.AHAttr
	QPN         ib.QPN
	QKey        ib.QKey
}

// Ack acknowledges the event. Destroy and Migrate of an ID, and LeaveMulticast, wait
// until the events that were taken are acknowledged. A CONNECT_REQUEST is an event of
// the listener. Further calls do nothing.
func (e *Event) Ack() {
	if e == nil || e.about == nil {
		return
	}
	m := e.about.id.m
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

// wait returns a channel that closes when all events are acknowledged; nil if they are.
func (a *ackCount) wait() <-chan struct{} {
	if a.open == 0 {
		return nil
	}
	if a.drained == nil {
		a.drained = make(chan struct{})
	}
	return a.drained
}

// drain waits until taken, a channel of ackCount.wait, closes. It does not wait if the
// Manager is closed.
func (m *Manager) drain(taken <-chan struct{}) {
	if taken == nil {
		return
	}
	select {
	case <-taken:
	case <-m.done:
	}
}

// RejectError is returned if the peer rejects a connection. It unwraps to
// ECONNREFUSED.
type RejectError struct {
	Reason      mad.RejReason
	PrivateData []byte // of the REJ, its full length

	hint string // advice; empty if the reason suffices
}

// Error returns the reason in words and as a number, with advice where it helps.
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
