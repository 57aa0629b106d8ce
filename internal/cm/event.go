package cm

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// EventType is the type of an event for the consumer of a connection.
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

// Event tells the consumer of a connection what happened to it. It and what it
// points to are valid until the handler returns. Only the message that caused
// the event is set; an error event has none.
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

// Handler receives the events of a connection, on the thread of the manager. It
// must not block. It may call the verbs of c and of any other
// connection. After Destroy it gets no more events. It gets UserEstablished
// while the QP processes the peer's first request; it may end the QP then, but
// must not connect it again.
//
// The handler of a listener gets REQReceived and SIDRREQReceived, each with a
// new connection, whose handler it stays until SetHandler. If it calls Forget,
// the message is dropped and the peer repeats it.
type Handler func(now clock.Instant, c *Conn, e *Event)
