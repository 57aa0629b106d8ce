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
	"github.com/softhca/softhca/internal/packet"
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
	// WindowBytes bounds the unacknowledged bytes towards one peer address.
	WindowBytes int
}

// Env is the state that the queue pairs of a shard share.
type Env struct {
	Settings Settings
	Mem      *memory.Table
	Queues   ring.Allocator // of the memory of work queues
	AHs      *AHTable
	Counters *counters.Set
	// PKey returns the entry of the port's P_Key table.
	PKey func(index uint16) ib.PKey
	// QP returns the queue pair with a number, and EEC the EE context; nil if
	// there is none.
	QP  func(ib.QPN) *QP
	EEC func(ib.EECN) *EEC
	// Route resolves an address vector. flow overrides a flow label of zero in
	// the choice of the UDP source port.
	Route func(av *ib.AHAttr, flow uint32) (fabric.Path, error)
	// FixedSrcPort is the UDP source port of all packets, 0 if each path has
	// its own.
	FixedSrcPort uint16
	// Limits are what modify calls are checked against.
	Limits ModifyLimits
	// Gone are the local addresses that the port has lost: paths from them are
	// unusable.
	Gone map[netip.Addr]bool
	// Peers bounds what is in flight to each address.
	Peers *flow.Table
	// Keep is the memory of the reorder buffers. With nil there is no buffering
	// and no selective retransmission.
	Keep *KeepPool
	// AnswersFirst makes QPs send responses before requests. Otherwise responses
	// follow the requests of the same turn.
	AnswersFirst bool
	// Raise receives asynchronous events. It must not block.
	Raise func(Event)
	// CQFailed tells every QP that a CQ overflowed.
	CQFailed func(now clock.Instant, cq *CQ)
	// Wake puts an end on the list of ends that have packets to transmit.
	Wake func(*End)
	// Inject answers requests in place of the RC responders, if not nil.
	Inject Inject
	// Trace receives what happens, if not nil.
	Trace trace.Tracer
	// Now is the time stamp of trace records; the shard sets it on every entry.
	Now clock.Instant
	// Out writes the packets.
	Out *packet.Writer
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

	IDDerived bool // ID was derived from the ICRC
	sign      sign // of migration; the endpoint that admits the packet sets it
}
