package cm

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// EventType is what the consumer of a connection hears.
type EventType uint8

// The events, named as in Linux.
const (
	NoEvent EventType = iota
	REQError
	REQReceived
	REPError
	REPReceived
	RTUReceived
	UserEstablished
	DREQError
	DREQReceived
	DREPReceived
	TimewaitExit
	MRAReceived
	REJReceived
	LAPError
	LAPReceived
	APRReceived
	SIDRREQError
	SIDRREQReceived
	SIDRREPReceived
	numEvents
)

var eventNames = [numEvents]string{
	"", "REQ_ERROR", "REQ_RECEIVED", "REP_ERROR", "REP_RECEIVED", "RTU_RECEIVED", "USER_ESTABLISHED",
	"DREQ_ERROR", "DREQ_RECEIVED", "DREP_RECEIVED", "TIMEWAIT_EXIT", "MRA_RECEIVED", "REJ_RECEIVED",
	"LAP_ERROR", "LAP_RECEIVED", "APR_RECEIVED", "SIDR_REQ_ERROR", "SIDR_REQ_RECEIVED", "SIDR_REP_RECEIVED",
}

// String returns the name, empty for NoEvent.
func (t EventType) String() string { return nameOf(eventNames[:], t, "invalid event") }

// Event tells the consumer of a connection what happened to it. It and what
// it points to are valid until the handler returns. Of the messages the one is
// set that caused the event, if one did; of an error event, none.
type Event struct {
	Type    EventType
	REQ     *mad.REQ
	REP     *mad.REP
	RTU     *mad.RTU
	REJ     *mad.REJ
	MRA     *mad.MRA
	DREQ    *mad.DREQ
	DREP    *mad.DREP
	LAP     *mad.LAP
	APR     *mad.APR
	SIDRREQ *mad.SIDRREQ
	SIDRREP *mad.SIDRREP
}

// Handler hears the events of a connection, on the thread that holds the
// shard. It must not block. It may call the verbs of c and of any other
// connection. After Destroy it hears nothing more. It hears UserEstablished
// while the first request of the peer is in the QP's hands: it may end the QP
// then, and must not connect it anew.
//
// The handler of a listener hears REQReceived and SIDRREQReceived, each with a
// new connection whose handler it is until SetHandler. If it calls Forget, the
// message is as if it had never come and the peer repeats it.
type Handler func(now clock.Instant, c *Conn, e *Event)
