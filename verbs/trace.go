package verbs

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// TraceKind is the kind of a TraceRecord.
type TraceKind uint8

// The kinds of records.
const (
	TracePacketOut   TraceKind = iota // Header holds the first bytes of the UDP payload
	TracePacketIn                     // likewise; the packet passed every check up to the QP
	TraceState                        // From, To, Cause
	TraceCompletion                   // WRID, Status
	TraceEvent                        // Event
	TraceRetry                        // sending goes back to PSN; Cause
	TraceDrop                         // a packet for this QP was dropped; Cause
	TraceFault                        // a fault rule acted, Cause; on a packet for QPN if Len is not 0: PSN, Header
	TraceRepair                       // sending goes back to PSN, but that does not count as a retry; Cause
	TraceChallenge                    // the end starts or ends to verify that its peer is alive; Cause
	TraceConnection                   // Change of a connection to Service; Cause if it ended
	TraceRefusal                      // a request of the peer is refused; Cause says exactly why
	TraceMemoryError                  // a work request cannot use its memory; Cause says exactly why
)

// TraceChange is what happened to a connection.
type TraceChange uint8

// The changes of a connection.
const (
	_                TraceChange = iota
	TraceEstablished             // both sides may send
	TraceEnded                   // by this side, by the peer, or because the peer has forgotten it
	TraceRejected                // this side refused the peer's request
	TraceRejectedBy              // the peer refused the request of this side
	TraceUnanswered              // the peer did not answer
)

// String returns the change in words, such as "rejected by the peer".
func (c TraceChange) String() string { return trace.Change(c).String() }

// TraceHeaderBytes is the maximum number of bytes of a packet in a record.
const TraceHeaderBytes = 96

// TraceRecord is one thing that happened on a QP, on an EE context, or on a connection of the
// connection manager; see Config.Trace.
type TraceRecord struct {
	At     time.Duration // since the adapter was opened
	Kind   TraceKind
	From   QPState
	To     QPState
	Status WCStatus
	Event  EventType
	Change TraceChange
	EEC    bool // QPN is the number of an EE context
	QPN    QPN
	PSN    PSN
	WRID   uint64
	Len    int // bytes of the whole UDP payload
	Cause  string
	// Peer is the peer's queue pair, 0 if there is none or it is not known. Local and Remote are
	// the addresses of both ends. Records of packets and of faults have none of these.
	Peer          QPN
	Local, Remote netip.Addr
	Service       mad.ServiceID          // of TraceConnection
	Header        [TraceHeaderBytes]byte // all headers, and the beginning of a management datagram
}

// tracer returns the engine's tracer that calls f, nil for nil.
func tracer(f func(*TraceRecord)) trace.Tracer {
	if f == nil {
		return nil
	}
	return func(r *trace.Record) {
		f(&TraceRecord{
			At: r.At.Sub(0), Kind: TraceKind(r.Kind), From: r.From, To: r.To, Status: r.Status, Event: r.Event,
			Change: TraceChange(r.Change), EEC: r.EEC, QPN: r.QPN, PSN: r.PSN, WRID: r.WRID, Len: r.Len, Cause: r.Cause,
			Peer: r.Peer, Local: r.Local, Remote: r.Remote, Service: r.Service, Header: r.Header,
		})
	}
}

// engine converts the record to the engine's type.
func (r *TraceRecord) engine() *trace.Record {
	return &trace.Record{
		At: clock.Instant(r.At), Kind: trace.Kind(r.Kind), From: r.From, To: r.To, Status: r.Status, Event: r.Event,
		Change: trace.Change(r.Change), EEC: r.EEC, QPN: r.QPN, PSN: r.PSN, WRID: r.WRID, Len: r.Len, Cause: r.Cause,
		Peer: r.Peer, Local: r.Local, Remote: r.Remote, Service: r.Service, Header: r.Header,
	}
}

// String returns one line without the time.
func (r *TraceRecord) String() string {
	if r == nil {
		return ""
	}
	return r.engine().String()
}

// MAD returns the beginning of the management datagram in the packet of the
// record; nil if the packet has none.
func (r *TraceRecord) MAD() *[mad.SummarySize]byte {
	if r == nil {
		return nil
	}
	return r.engine().MAD()
}
