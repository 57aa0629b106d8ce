package hca

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/trace"
)

// Limits are how much of each object an adapter holds (V1).
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
	MaxPD         int
	MaxAH         int
	MaxRDD        int   // reliable datagram domains
	MaxEEC        int   // EE contexts
	MaxRDAtomic   uint8 // READs and atomics outstanding, as requester and as responder

	MaxMcastGrp           int // multicast groups
	MaxMcastQPAttach      int // QPs of a group
	MaxTotalMcastQPAttach int // QPs of all groups
}

// DefaultLimits returns the limits of an adapter that sets none.
func DefaultLimits() Limits {
	return Limits{
		MaxQP: 60000, MaxQPWR: 1 << 15, MaxSGE: 32, MaxInlineData: 512,
		MaxCQ: 1 << 16, MaxCQE: 1<<22 - 1, MaxSRQ: 1 << 16, MaxSRQWR: 1 << 15,
		MaxMR: 1 << 19, MaxPD: 1 << 16, MaxAH: 1 << 16, MaxRDAtomic: 128,
		MaxRDD: 1 << 12, MaxEEC: 1 << 12,
		MaxMcastGrp: fabric.MaxGroups, MaxMcastQPAttach: 64, MaxTotalMcastQPAttach: 64 * fabric.MaxGroups,
	}
}

// Config says what an adapter is made of.
type Config struct {
	Caps    fabric.Caps   // of its port
	Rand    func() uint32 // unpredictable in production, seeded in simulation
	QPNSlot uint8         // upper 8 bits of every QPN
	Shared  bool          // others can have the address: QPNSlot begins every communication ID, also if it is 0
	// NodeGUID names the adapter to peers. It is not 0, it should be the same each
	// time the adapter is opened, and a stranger should not be able to guess it:
	// with it, and our address, a peer's connection with us can be ended (C7).
	NodeGUID uint64
	Settings qp.Settings // zero WindowBytes takes a default
	Limits   Limits      // zero takes DefaultLimits
	// Connections bound the communication manager; zero takes cm.DefaultLimits.
	Connections cm.Limits
	// ListenGrace is how long its requests wait for somebody to listen; 0: not at all.
	ListenGrace time.Duration
	PKeys       []ib.PKey      // P_Key table; empty takes the default key
	Raise       func(qp.Event) // asynchronous events; must not block
	Queues      ring.Allocator // of the memory of queues; zero is Go's heap
	Trace       trace.Tracer   // nil for none
	// Counters are where the adapter counts; nil is memory of its own.
	Counters *counters.Set
	// PortMbps is the rate of the port in Mb/s, from which on a static rate has
	// no effect; zero takes DefaultPortMbps. Nothing slows the port to it.
	PortMbps uint32
	// Privileged allows controlled Q_Keys, as CAP_NET_RAW does in Linux.
	Privileged bool
}

// defaultWindow bounds the bytes in flight to a peer whose buffer is unknown.
const defaultWindow = 256 << 10

// DefaultPortMbps is the rate of a port that sets none: the 100 Gb/s of four
// lanes.
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
		// The peer's buffer is most likely like our own; half of it leaves
		// room for what others send.
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
