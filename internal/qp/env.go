package qp

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/number"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// MaxMessage is the longest message of a connected service, in bytes.
const MaxMessage = 1 << 31

// atomicSize is the operand of an atomic, in bytes.
const atomicSize = 8

// Settings are the choices of an adapter that all its QPs share.
type Settings struct {
	// MigReq is the BTH migration bit of packets sent. Adapters expect 1 in the
	// MIGRATED state; Linux rxe sends 0 and accepts both. A QP for which
	// software has asked for REARM sends 1 in MIGRATED regardless of this
	// setting.
	MigReq bool
	// Credits makes responders report their receive work requests in the AETH.
	// Off, they report "no credit count", as Linux rxe does. The requester
	// honours the peer's credits either way.
	Credits bool
	// InOrderOnly makes both sides recover from loss as Linux rxe does
	// (go-back-N). The responder drops packets beyond a gap instead of buffering
	// them; the requester retransmits everything from the gap on, after a NAK or
	// when its timer expires.
	InOrderOnly bool
	// FatalEvents raises QP_FATAL for every QP that moves to ERR by itself, also
	// where a completion, QP_REQ_ERR or QP_ACCESS_ERR has reported the error.
	FatalEvents bool
	// NoChallenge believes every packet that ends or moves a connection at once.
	NoChallenge bool
	// ProbeAfter is the minimum time without an answer before a probe; 0 derives it from
	// measured round trips only.
	ProbeAfter time.Duration
	// RetrySpeedup makes the retry timer that many times shorter after it has expired, until there is progress, so that a
	// test of failures need not wait; 0: it is as long as the queue pair's timeout.
	RetrySpeedup int
	// WindowBytes bounds the unacknowledged bytes towards one peer address.
	WindowBytes int
}

// Env is the state that the queue pairs of a shard share.
type Env struct {
	// The adapter sets these.

	Settings Settings
	Limits   ModifyLimits // what modify calls are checked against
	Ports    []*Port      // by number, from 1; at least one
	Mem      *memory.Table
	Queues   ring.Allocator // of the memory of work queues
	AHs      *AHTable
	Counters *counters.Set
	Table    *restrack.Table // of the adapter's objects; nil for none
	Out      *packet.Writer  // writes the packets
	Trace    trace.Tracer    // receives what happens, if not nil
	// Nasty makes the choices that the specification leaves to the adapter; nil for the usual ones.
	Nasty *nasty.Dice
	// Changed is called when a packet is repeated with another payload than before: the program, or an adapter, has
	// changed the memory of a send request before the request completed. It gets the queue pair, and the index of the
	// request in the send queue. It is a function because a checker outside of the engine records it. Nil: the payload
	// is not compared.
	Changed func(n ib.QPN, index uint32)
	// Raise receives asynchronous events. It is a function because events leave the
	// engine, for the program. It must not block.
	Raise func(Event)
	// Inject answers requests in place of the responders, if not nil. It is a
	// function because the rules for faults are outside of the engine.
	Inject Inject
	// InjectRequest makes work requests fail, if not nil. It is a function because the rules for faults are outside
	// of the engine.
	InjectRequest InjectRequest
	// WriteBack has memory written back to storage, for a FLUSH. It is a function because the
	// engine does no I/O. It returns at once; End.WrittenBack reports the end, in a later call.
	// Nil: no memory needs it.
	WriteBack func(WriteBack)
	// CancelWriteBack cancels a job of WriteBack: it need not be done, and its end has no effect.
	// Nil: jobs are done all the same.
	CancelWriteBack func(job uint64)
	// Backlog finds the socket on this host that gets the packets to a queue pair at an address;
	// it returns nil for other hosts. It is a function because the engine does no I/O. Nil: no
	// socket is known.
	Backlog func(dst netip.Addr, to ib.QPN) fabric.Backlog

	// The shard sets these.

	QPs    *number.Table[QP] // all but QP1
	QP1    *QP               // nil unless a program has created it
	EECs   *number.Table[EEC]
	SRQs   *number.Table[SRQ] // of XRC
	Timers Timers
	// Delayed are the completion queues with a delayed event.
	Delayed Delayed
	// Late are the completion queues with late entries.
	Late  Late
	Peers *flow.Table // bounds what is in flight to each address
	// Sockets delays UC packets to sockets of this host that are full; nil if Backlog is.
	Sockets *flow.SocketCredits
	// Reorder is the memory of the reorder buffers. With nil there is no buffering
	// and no selective retransmission.
	Reorder *ReorderPool
	// AnswersFirst makes QPs send responses before requests. Otherwise responses
	// follow the requests of the same turn.
	AnswersFirst bool

	now   clock.Instant // of the current call
	batch uint64        // number of the current batch; all ports count together
	jobs  uint64        // number of the last WriteBack
}

// CQFailed fails every QP that completes to a CQ that overflowed.
func (e *Env) CQFailed(now clock.Instant, cq *CQ) {
	e.QPs.Each(func(q *QP) { q.cqFailed(now, cq) })
	if e.QP1 != nil {
		e.QP1.cqFailed(now, cq)
	}
}

// Event is an asynchronous event: its kind and what it is about.
type Event struct {
	Type ib.EventType
	QPN  ib.QPN  // QP events
	EEC  ib.EECN // events of EE contexts
	CQ   *CQ     // CQ_ERR
	SRQ  *SRQ    // SRQ events
	Port uint8   // port events
}

// Packet is an arriving packet that the shard has parsed and verified.
type Packet struct {
	roce.Packet
	Data *fabric.Datagram // where it came from
	Size int              // bytes of the UDP payload
	ID   uint16           // IPv4 identification, known or derived
	Port uint8            // where it arrived

	IDDerived bool // ID was derived from the ICRC
	sign      sign // of migration; the endpoint that admits the packet sets it
}
