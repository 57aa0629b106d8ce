package verbs

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// TraceKind is the kind of a TraceRecord.
type TraceKind uint8

// The kinds of records.
const (
	TracePacketOut  TraceKind = iota // Header holds the first bytes of the UDP payload
	TracePacketIn                    // likewise; the packet passed every check up to the QP
	TraceState                       // From, To, Cause
	TraceCompletion                  // WRID, Status
	TraceEvent                       // Event
	TraceRetry                       // sending goes back to PSN; Cause
	TraceDrop                        // a packet for this QP was dropped; Cause
	TraceFault                       // a fault rule acted, Cause; on a packet for QPN if Len is not 0: PSN, Header
	TraceRepair                      // sending goes back to PSN, but that does not count as a retry; Cause
)

// TraceHeaderBytes is the maximum number of bytes of a packet in a record.
const TraceHeaderBytes = 96

// TraceRecord is one thing that happened on a QP, or on an EE context; see Config.Trace.
type TraceRecord struct {
	At     time.Duration // since the adapter was opened
	Kind   TraceKind
	From   QPState
	To     QPState
	Status WCStatus
	Event  EventType
	EEC    bool // QPN is the number of an EE context
	QPN    QPN
	PSN    PSN
	WRID   uint64
	Len    int // bytes of the whole UDP payload
	Cause  string
	Header [TraceHeaderBytes]byte // all headers, and the beginning of a management datagram
}

// tracer returns the engine's tracer that calls f, nil for nil.
func tracer(f func(*TraceRecord)) trace.Tracer {
	if f == nil {
		return nil
	}
	return func(r *trace.Record) {
		f(&TraceRecord{
			At: r.At.Sub(0), Kind: TraceKind(r.Kind), From: r.From, To: r.To, Status: r.Status, Event: r.Event,
			EEC: r.EEC, QPN: r.QPN, PSN: r.PSN, WRID: r.WRID, Len: r.Len, Cause: r.Cause, Header: r.Header,
		})
	}
}

// engine converts the record to the engine's type.
func (r *TraceRecord) engine() *trace.Record {
	return &trace.Record{
		At: clock.Instant(r.At), Kind: trace.Kind(r.Kind), From: r.From, To: r.To, Status: r.Status, Event: r.Event,
		EEC: r.EEC, QPN: r.QPN, PSN: r.PSN, WRID: r.WRID, Len: r.Len, Cause: r.Cause, Header: r.Header,
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
