package ends

import (
	"context"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/testagent"
)

// cqEntries is the size of an end's completion queue: more than any case has in
// flight.
const cqEntries = 4096

// End is an adapter with one protection domain and one completion queue.
type End interface {
	// Name says which adapter it is, such as "softhca" or "rxe0 6.1.0".
	Name() string
	// Path returns the address that the end is reached by.
	Path() Path
	// RegMR allocates memory and registers it.
	RegMR(ctx context.Context, size uint64, access ib.Access) (Memory, error)
	// CreateQP returns a queue pair in RESET.
	CreateQP(ctx context.Context, cfg QPConfig) (QP, error)
	// CreateSRQ returns a shared receive queue.
	CreateSRQ(ctx context.Context, cfg testagent.SRQConfig) (SRQ, error)
	// CreateAH returns an address handle for a peer.
	CreateAH(ctx context.Context, to Path) (AH, error)
	// Window returns a key for a part of a region that the peer's SEND with
	// invalidate may end. The addresses are those of the region.
	Window(ctx context.Context, qp QP, m Memory, off, n uint64) (ib.RKey, error)
	// AllocMW returns a memory window that is not bound.
	AllocMW(ctx context.Context, typ ib.MWType) (MW, error)
	// Poll takes n completions, at most MaxPoll, and waits for them; fewer if
	// the time runs out.
	Poll(ctx context.Context, n int, wait time.Duration) ([]ib.WC, error)
	// Arm asks for a completion event, and forgets earlier ones.
	Arm(ctx context.Context, solicitedOnly bool) error
	// Notified reports whether the event came; it waits for it.
	Notified(ctx context.Context, wait time.Duration) (bool, error)
	// Events returns the asynchronous events since the last call, and waits for
	// one if there are none.
	Events(ctx context.Context, wait time.Duration) ([]ib.EventType, error)
	// Clear destroys every object, completion and event; the end is as newly
	// opened.
	Clear(ctx context.Context) error
	// Close ends the use of the adapter.
	Close() error
}

// MaxPoll is the most completions that one Poll returns.
const MaxPoll = testagent.MaxPoll

// Path is the address of an end, and its index in the GID table.
type Path struct {
	GID   ib.GID
	Index uint8
}

// Memory is a registered region with guarded bytes around it.
type Memory interface {
	// Addr returns the address of the first byte, for the peer.
	Addr() uint64
	// RKey returns the key for the peer.
	RKey() ib.RKey
	// Fill writes a pattern.
	Fill(ctx context.Context, s testagent.Span) error
	// Set sets n bytes from an offset to the same value.
	Set(ctx context.Context, off, n uint64, to byte) error
	// Verify compares memory with a pattern.
	Verify(ctx context.Context, s testagent.Span) (testagent.Mismatch, error)
	// VerifySet compares n bytes from an offset with a byte.
	VerifySet(ctx context.Context, off, n uint64, want byte) (testagent.Mismatch, error)
	// Read returns n bytes from an offset.
	Read(ctx context.Context, off, n uint64) ([]byte, error)
	// Write writes bytes at an offset.
	Write(ctx context.Context, off uint64, b []byte) error
	// Guard returns how many bytes around the region were changed.
	Guard(ctx context.Context) (uint64, error)
}

// QPConfig describes a queue pair to create.
type QPConfig struct {
	Type ib.QPType
	SRQ  SRQ // nil for a receive queue of its own
	Cap  ib.QPCap
	// AtomicWrite creates a peer's queue pair so that it can post ATOMIC WRITE, alone in a PostSend.
	AtomicWrite bool
}

// QP is a queue pair.
type QP interface {
	// QPN returns the queue pair number.
	QPN() ib.QPN
	// Modify gives the queue pair the attributes that the mask names.
	Modify(ctx context.Context, attr *ib.QPAttr, mask ib.AttrMask) error
	// Query returns the state and the attributes.
	Query(ctx context.Context) (ib.QPAttr, error)
	// PostSend posts work requests in order.
	PostSend(ctx context.Context, wrs ...Send) error
	// PostRecv posts receives in order.
	PostRecv(ctx context.Context, wrs ...Recv) error
	// BindMW posts a bind of a memory window of type 1. For type 2, use PostSend with BIND_MW.
	BindMW(ctx context.Context, wrID uint64, flags ib.SendFlags, b Bind) error
	// AttachMcast makes a UD queue pair receive packets to a multicast group.
	AttachMcast(ctx context.Context, group ib.GID) error
	// Destroy ends the queue pair.
	Destroy(ctx context.Context) error
}

// SRQ is a shared receive queue.
type SRQ interface {
	// PostRecv posts receives in order.
	PostRecv(ctx context.Context, wrs ...Recv) error
}

// AH is an address handle of the end that made it.
type AH any

// SGE is an element of a work request: a range relative to a region, which may
// exceed it.
type SGE struct {
	Memory Memory
	Off    uint64
	Length uint32
	LKey   ib.LKey // 0 means the region's key
}

// Send is a work request for the send queue.
type Send struct {
	WRID   uint64
	Opcode ib.WROpcode
	Flags  ib.SendFlags
	SGList []SGE
	testagent.Copies
	RemoteStride uint32 // of copies

	ImmData    uint32
	InvRKey    ib.RKey
	RemoteAddr uint64
	RKey       ib.RKey
	CompareAdd uint64
	Swap       uint64
	Flush      ib.Flush
	Bind       *Bind // BIND_MW: RKey is the new key

	AH         AH // UD
	RemoteQPN  ib.QPN
	RemoteQKey ib.QKey
}

// Recv is a receive.
type Recv struct {
	WRID   uint64
	SGList []SGE
	testagent.Copies
}
