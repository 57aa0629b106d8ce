package gsi

import (
	"cmp"
	"slices"

	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/roce"
)

// Defaults of the bounds.
const (
	defaultQueue        = 1024
	defaultTransactions = 1024
)

// maxAgents bounds the agents of an interface: fewer classes are meaningful on
// RoCE.
const maxAgents = 32

// firstNumber is the number of the first agent. On Linux it is that of the
// connection manager's agent, and shows in its transaction IDs.
const firstNumber = 2

// Config configures an interface.
type Config struct {
	Ports  [][]netip.Addr // local addresses of each port, without zones
	PKeys  []ib.PKey      // the ports' table; empty means the default key
	MigReq bool           // migration bit of the BTHs sent
	// SrcPort is the UDP source port of all packets; 0 means that of QP1 on
	// Linux.
	SrcPort         uint16
	MaxQueue        int // maximum of queued MADs of a port; 0 means 1024
	MaxTransactions int // maximum of unanswered requests; 0 means 1024
	// Out writes the datagrams, and has the counters of packets and drops.
	Out *packet.Writer
}

// fill replaces zero values by defaults and copies the lists.
func (c *Config) fill() {
	c.Ports, c.PKeys = slices.Clone(c.Ports), slices.Clone(c.PKeys)
	for i, addrs := range c.Ports {
		c.Ports[i] = slices.Clone(addrs)
	}
	if len(c.PKeys) == 0 {
		c.PKeys = []ib.PKey{ib.PKeyDefault}
	}
	c.SrcPort = cmp.Or(c.SrcPort, roce.SourcePortOfQPN(ib.QPNGSI))
	c.MaxQueue = cmp.Or(c.MaxQueue, defaultQueue)
	c.MaxTransactions = cmp.Or(c.MaxTransactions, defaultTransactions)
}

// Interface is QP1 of one adapter.
type Interface struct {
	cfg      Config
	agents   []*Agent
	next     uint32 // number of the next agent
	waiting  table
	queues   []queue // of the ports
	psn      ib.PSN  // of the next datagram
	counters Counters

	in Received // the MAD being processed
}

// New returns an interface without agents.
func New(c Config) *Interface {
	c.fill()
	g := &Interface{cfg: c, next: firstNumber, queues: make([]queue, len(c.Ports))}
	g.waiting.init(c.MaxTransactions)
	for i := range g.queues {
		g.queues[i].max = c.MaxQueue
	}
	return g
}

// Pending reports whether Transmit has something to send from a port, numbered from 1. Any
// goroutine may call it.
func (g *Interface) Pending(port uint8) bool { return g.queues[port-1].len() > 0 }

// Deadline returns when Advance is next needed; clock.Never when no request
// waits for an answer.
func (g *Interface) Deadline() clock.Instant { return g.waiting.byDue.Next() }

// Advance repeats requests whose answer is late, and ends those without a retry
// left with ErrTimeout.
func (g *Interface) Advance(now clock.Instant) {
	for t := g.waiting.byDue.Due(now); t != nil; t = g.waiting.byDue.Due(now) {
		t.expire(now)
	}
}

// Counters returns the counts so far. The caller has both planes.
func (g *Interface) Counters() Counters { return g.counters }

// Counters are the counts of an interface in addition to those of its adapter.
// They never decrease.
type Counters struct {
	Sent        uint64 // MADs handed to the network, including retries and answers
	Received    uint64 // datagrams with the service, addresses and keys of QP1
	Retried     uint64 // requests sent again
	TimedOut    uint64 // requests that ended without an answer
	Unsupported uint64 // Gets and Sets answered as unsupported
	Informed    uint64 // Gets of ClassPortInfo answered
	QueueFull   uint64 // MADs and retries dropped because the queue was full
}

// Each calls f with the name and the value of every counter, in a fixed order.
func (c *Counters) Each(f func(name string, v uint64)) {
	f("mad_sent", c.Sent)
	f("mad_received", c.Received)
	f("mad_retries", c.Retried)
	f("mad_timeouts", c.TimedOut)
	f("mad_unsupported", c.Unsupported)
	f("mad_class_port_info", c.Informed)
	f("mad_queue_full", c.QueueFull)
}
