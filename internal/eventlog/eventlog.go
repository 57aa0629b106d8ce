package eventlog

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// Log writes records to a log. Several threads may call its methods at once.
type Log struct {
	out    *slog.Logger         // limited
	whole  *slog.Logger         // nil for none
	now    func() time.Duration // time since the log began
	limits [trace.NumKinds][maxDetails]limit
	calls  [maxDetails]limit // by the sum of the call's name
}

// maxDetails bounds the sorts of events of one kind: the statuses, the types of events, the changes
// of connections, the causes of drops. Greater numbers share a limit.
const maxDetails = 64

// New returns a log that writes to out, which is limited, and to whole, which is not. Both may be nil.
func New(out, whole *slog.Logger) *Log {
	began := time.Now()
	return &Log{out: out, whole: whole, now: func() time.Duration { return time.Since(began) }}
}

// takes reports whether a logger takes lines of a level.
func takes(l *slog.Logger, level slog.Level) bool {
	return l != nil && l.Enabled(context.Background(), level)
}

// Detailed reports whether the log takes packets and successful completions.
func (l *Log) Detailed() bool {
	return takes(l.out, slog.LevelDebug) || takes(l.whole, slog.LevelDebug)
}

// Record logs a record, unless its level is not logged or its sort comes too often. It is a
// trace.Tracer.
func (l *Log) Record(r *trace.Record) {
	if level := levelOf(r); takes(l.out, level) || takes(l.whole, level) {
		l.write(r, func(attrs []slog.Attr) []slog.Attr { return describe(identify(attrs, r), r) })
	}
}

// Event logs an asynchronous event that is not about a queue pair or an EE context. about says what
// it is about.
func (l *Log) Event(t ib.EventType, about ...slog.Attr) {
	r := trace.Record{Kind: trace.Event, Event: t}
	l.write(&r, func(attrs []slog.Attr) []slog.Attr { return append(describe(attrs, &r), about...) })
}

// Call logs, if l is not nil, that a call of the program failed. about says on which object.
func (l *Log) Call(name string, err error, about ...slog.Attr) {
	if l != nil {
		attrs := append([]slog.Attr{slog.String("call", name), slog.Any("err", err)}, about...)
		l.emit(slog.LevelInfo, CallFailed, attrs, &l.calls[sumOf(name)])
	}
}

// write logs a record with the attributes that describe appends.
func (l *Log) write(r *trace.Record, describe func([]slog.Attr) []slog.Attr) {
	l.emit(levelOf(r), message(r), describe(make([]slog.Attr, 0, 8)), &l.limits[r.Kind][detail(r)])
}

// emit logs a line, and how many events of its sort were left out before it.
func (l *Log) emit(level slog.Level, message string, attrs []slog.Attr, limit *limit) {
	if takes(l.whole, level) {
		l.whole.LogAttrs(context.Background(), level, message, attrs...)
	}
	if !takes(l.out, level) {
		return
	}
	if level > slog.LevelDebug {
		left, ok := limit.take(l.now())
		if !ok {
			return
		}
		if left > 0 {
			attrs = append(attrs, slog.Uint64("left_out", left))
		}
	}
	l.out.LogAttrs(context.Background(), level, message, attrs...)
}

// sumOf returns the limit of the calls with a name. Few share one.
func sumOf(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) % maxDetails) }

// Close logs, if l is not nil, how many events were left out since the last line of their sort.
func (l *Log) Close() {
	if l == nil || l.out == nil {
		return
	}
	for kind := range l.limits {
		for d := range l.limits[kind] {
			r := recordOf(trace.Kind(kind), d)
			l.leftOut(levelOf(r), sortOf(r), &l.limits[kind][d])
		}
	}
	for i := range l.calls {
		l.leftOut(slog.LevelInfo, CallFailed, &l.calls[i])
	}
}

// leftOut logs how many events of a sort were left out since its last line.
func (l *Log) leftOut(level slog.Level, sort string, limit *limit) {
	if n := limit.left.Swap(0); n > 0 {
		l.out.Log(context.Background(), level, "events left out", "event", sort, "left_out", n)
	}
}

// detail returns which events of its kind a record belongs to.
func detail(r *trace.Record) int {
	switch r.Kind {
	case trace.Completion:
		return min(int(r.Status), maxDetails-1)
	case trace.Event:
		return min(int(r.Event), maxDetails-1)
	case trace.Connection:
		return min(int(r.Change), maxDetails-1)
	case trace.Drop: // a stranger can cause many of some causes
		return int(dropOf(r.Cause))
	default:
		return 0
	}
}

// dropOf returns the reason of a drop with a name, counters.NumDrops for another.
func dropOf(cause string) counters.Drop {
	d := counters.Drop(0)
	for d < counters.NumDrops && d.String() != cause {
		d++
	}
	return d
}

// recordOf returns a record of a sort of events.
func recordOf(k trace.Kind, d int) *trace.Record {
	return &trace.Record{Kind: k, Status: ib.WCStatus(d), Event: ib.EventType(d), Change: trace.Change(d)}
}

// sortOf names the sort of events of a record.
func sortOf(r *trace.Record) string {
	switch r.Kind {
	case trace.Completion:
		return fmt.Sprintf("%s %v", message(r), r.Status)
	case trace.Event:
		return fmt.Sprintf("%s %v", message(r), r.Event)
	default:
		return message(r)
	}
}

// levelOf returns the level of a record: Debug for records that every message produces, Warn for
// failures.
func levelOf(r *trace.Record) slog.Level {
	switch r.Kind {
	case trace.PacketOut, trace.PacketIn:
		return slog.LevelDebug
	case trace.Completion:
		switch r.Status {
		case ib.WCSuccess, ib.WCWRFlushErr:
			return slog.LevelDebug
		default:
			return slog.LevelWarn
		}
	case trace.Event:
		switch r.Event {
		case ib.EventCommEst, ib.EventSQDrained, ib.EventQPLastWQEReached, ib.EventSRQLimitReached, ib.EventPathMig,
			ib.EventEECCommEst, ib.EventEECSQDrained, ib.EventEECPathMig:
			return slog.LevelInfo
		default:
			return slog.LevelWarn
		}
	case trace.Refusal, trace.MemoryError:
		return slog.LevelWarn
	case trace.Connection:
		if r.Change == trace.RejectedBy || r.Change == trace.Unanswered {
			return slog.LevelWarn
		}
	}
	return slog.LevelInfo
}

// Messages that a reader of the log compares.
const (
	StateChanged     = "state changed"
	AsyncEvent       = "asynchronous event"
	PacketDropped    = "packet dropped"
	RequestRefused   = "request refused"
	MemoryError      = "memory error"
	RetriesExhausted = "retries exhausted"
	CompletionError  = "completion with error"
	Challenge        = "challenge"
	Repeated         = "sends again"
	CallFailed       = "call failed" // of Call
)

// messages are the messages of the kinds that have one.
var messages = [trace.NumKinds]string{
	trace.PacketOut: "packet sent", trace.PacketIn: "packet received", trace.State: StateChanged, trace.Event: AsyncEvent,
	trace.Retry: Repeated, trace.Repair: Repeated, trace.Drop: PacketDropped, trace.Fault: "fault injected", trace.Challenge: Challenge,
	trace.Refusal: RequestRefused, trace.MemoryError: MemoryError,
}

// message returns the message of a record. It is the same for all records of a sort.
func message(r *trace.Record) string {
	switch r.Kind {
	case trace.Completion:
		switch r.Status {
		case ib.WCSuccess:
			return "completed"
		case ib.WCRetryExcErr, ib.WCRNRRetryExcErr:
			return RetriesExhausted
		default:
			return CompletionError
		}
	case trace.Connection:
		return "connection " + r.Change.String()
	default:
		return messages[r.Kind]
	}
}

// identify appends whose record it is.
func identify(attrs []slog.Attr, r *trace.Record) []slog.Attr {
	key := "qp"
	switch {
	case r.EEC:
		key = "eec"
	case r.Kind == trace.Fault && r.Len != 0:
		key = "to_qp"
	}
	if r.QPN != 0 || r.Kind != trace.Connection {
		attrs = append(attrs, slog.String(key, r.QPN.String()))
	}
	if r.Peer != 0 && r.QPN > ib.QPNGSI && r.Remote.IsValid() {
		attrs = append(attrs, slog.String("conn", Connection(r.Local, r.QPN, r.Remote, r.Peer)))
	} else if r.Remote.IsValid() {
		attrs = append(attrs, slog.String("remote", r.Remote.String()))
	}
	return attrs
}

// Connection names a connection in the same way at both ends.
func Connection(local netip.Addr, qpn ib.QPN, remote netip.Addr, peer ib.QPN) string {
	if c := local.Compare(remote); c > 0 || c == 0 && qpn > peer {
		local, qpn, remote, peer = remote, peer, local, qpn
	}
	return fmt.Sprintf("%v/%v-%v/%v", local, qpn, remote, peer)
}

// describe appends what happened.
func describe(attrs []slog.Attr, r *trace.Record) []slog.Attr {
	switch r.Kind {
	case trace.PacketOut, trace.PacketIn:
		return describePacket(attrs, r)
	case trace.State:
		attrs = append(attrs, slog.String("from", r.From.String()), slog.String("to", r.To.String()))
	case trace.Completion:
		return append(attrs, slog.Uint64("wr_id", r.WRID), slog.String("status", r.Status.String()))
	case trace.Event:
		return append(attrs, slog.String("event", r.Event.String()))
	case trace.Fault:
		if r.Len != 0 {
			attrs = describePacket(attrs, r)
		}
	case trace.Connection:
		if r.Service != 0 {
			attrs = append(attrs, slog.String("service", r.Service.String()))
		}
	case trace.MemoryError:
	default:
		attrs = append(attrs, slog.String("psn", r.PSN.String()))
	}
	if r.Kind == trace.Drop && r.Cause == counters.DropState.String() {
		attrs = append(attrs, slog.String("state", r.From.String()))
	}
	if r.Cause != "" {
		attrs = append(attrs, slog.String("cause", r.Cause))
	}
	return attrs
}

// describePacket appends the fields of a packet.
func describePacket(attrs []slog.Attr, r *trace.Record) []slog.Attr {
	attrs = append(attrs, slog.String("opcode", roce.Opcode(r.Header[0]).String()), slog.String("psn", r.PSN.String()), slog.Int("len", r.Len))
	if a, ok := r.AETH(); ok {
		attrs = append(attrs, slog.String("syndrome", a.Syndrome.String()), slog.Uint64("msn", uint64(a.MSN)))
	}
	if m := r.MAD(); m != nil {
		attrs = append(attrs, slog.String("mad", mad.Summary(m)))
	}
	return attrs
}
