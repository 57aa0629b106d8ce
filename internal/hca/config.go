package hca

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// Limits are the maximum numbers of objects of an adapter (V1).
type Limits struct {
	MaxQP         int
	MaxQPWR       uint32 // work requests of one queue
	MaxSGE        uint32 // scatter or gather elements of one work request
	MaxInlineData uint32 // bytes
	MaxCQ         int
	MaxCQE        uint32
	MaxSRQ        int
	MaxSRQWR      uint32
	MaxMR         int
	MaxMW         int // memory windows
	MaxPD         int
	MaxAH         int
	MaxDMSize     uint64 // bytes of device memory, of all allocations together
	MaxRDD        int    // reliable datagram domains
	MaxEEC        int    // EE contexts
	MaxXRCD       int    // XRC domains
	MaxRDAtomic   uint8  // READs and atomics outstanding, as requester and as responder

	MaxMcastGrp           int // multicast groups
	MaxMcastQPAttach      int // QPs of a group
	MaxTotalMcastQPAttach int // QPs of all groups
}

// DefaultLimits returns the limits of an adapter that sets none.
func DefaultLimits() Limits {
	return Limits{
		MaxQP: 60000, MaxQPWR: 1 << 15, MaxSGE: 32, MaxInlineData: 512,
		MaxCQ: 1 << 16, MaxCQE: 1<<22 - 1, MaxSRQ: 1 << 16, MaxSRQWR: 1 << 15,
		MaxMR: 1 << 19, MaxMW: 1 << 19, MaxPD: 1 << 16, MaxAH: 1 << 16, MaxRDAtomic: 128,
		MaxDMSize: 1 << 20,
		MaxRDD:    1 << 12, MaxEEC: 1 << 12, MaxXRCD: 1 << 12,
		MaxMcastGrp: fabric.MaxGroups, MaxMcastQPAttach: 64, MaxTotalMcastQPAttach: 64 * fabric.MaxGroups,
	}
}

// Config configures an adapter.
type Config struct {
	Caps    fabric.Caps   // of its port
	Rand    func() uint32 // unpredictable in production, seeded in simulation
	QPNSlot uint8         // upper 8 bits of every QPN
	Shared  bool          // processes share the address: QPNSlot is the upper byte of every communication ID, also if it is 0
	// NodeGUID identifies the adapter to peers. It must not be 0, should be the
	// same each time the adapter is opened, and should be unpredictable to
	// strangers: with it, a stranger who can send from the adapter's address could
	// end its connections (C7).
	NodeGUID uint64
	// WriteBack has memory written back to storage, as qp.Env.WriteBack says; its end is
	// reported to HCA.WrittenBack. Nil: no memory needs it.
	WriteBack func(qp.WriteBack)
	// CancelWriteBack cancels a job of WriteBack, as qp.Env.CancelWriteBack says.
	CancelWriteBack func(job uint64)

	// Backlog finds sockets on this host, as qp.Env.Backlog says. Nil: no socket is known.
	Backlog  func(dst netip.Addr, to ib.QPN) fabric.Backlog
	Settings qp.Settings // zero WindowBytes means the default
	Limits   Limits      // zero means DefaultLimits
	// Connections bound the communication manager; zero means cm.DefaultLimits.
	Connections cm.Limits
	// ListenGrace is how long requests to the communication manager wait for a
	// listener; 0: not at all.
	ListenGrace time.Duration
	PKeys       []ib.PKey      // P_Key table; empty means the default key
	Raise       func(qp.Event) // asynchronous events; must not block
	Queues      ring.Allocator // allocates the memory of queues; zero: Go's heap
	// Reject may reject requests for connections; see cm.Config.
	Reject func(from netip.Addr) mad.RejReason
	// Nasty makes the choices that the specification leaves to the adapter; nil for the usual ones.
	Nasty *nasty.Dice
	// Pause waits, between two parts of a payload that Nasty writes in another order. It is a
	// function because the engine reads no clock. Nil: it does not wait.
	Pause  func(time.Duration)
	Writes *memory.WriteLog // records writes to registered memory; nil: they are not recorded
	Trace  trace.Tracer     // nil for none
	// Changed reports payload that the program has changed too early, as qp.Env.Changed says; nil: it does not.
	Changed   func(ib.QPN, uint32)
	TraceRare bool // Trace gets neither packets nor completions with success
	// Counters is the memory of the counters; nil: the adapter allocates it.
	Counters *counters.Set
	// Table is the table of the adapter's objects that other processes read; nil for none.
	Table *restrack.Table
	// PortMbps is the rate of the port in Mb/s, zero means DefaultPortMbps.
	// Static rates at or above it have no effect. The port itself is not
	// limited to it.
	PortMbps uint32
	// SecondGID gives the GID table of a port with one address a second entry, of
	// the same address, for programs that use index 1 without looking.
	SecondGID bool
	// Privileged allows controlled Q_Keys, as CAP_NET_RAW does in Linux.
	Privileged bool
}

// defaultWindow bounds the bytes in flight to a peer whose buffer is unknown.
const defaultWindow = 256 << 10

// DefaultPortMbps is the rate of a port without a configured rate: the 100 Gb/s
// of four lanes.
const DefaultPortMbps = 100_000

// fill replaces zero values by defaults.
func (c *Config) fill() {
	if c.Counters == nil {
		c.Counters = new(counters.Set)
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if len(c.PKeys) == 0 {
		c.PKeys = []ib.PKey{ib.PKeyDefault}
	}
	if c.Settings.WindowBytes == 0 {
		// The peer's buffer is most likely like our own; half of it leaves room
		// for other senders.
		c.Settings.WindowBytes = defaultWindow
		if b := c.Caps.RecvBuffer / 2; b != 0 {
			c.Settings.WindowBytes = min(max(b, defaultWindow/4), 1<<20)
		}
	}
	if c.PortMbps == 0 {
		c.PortMbps = DefaultPortMbps
	}
	if c.Raise == nil {
		c.Raise = func(qp.Event) {}
	}
}
