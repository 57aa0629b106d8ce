package gsi

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// Errors of agents. Each unwraps to its errno.
var (
	// ErrTaken is returned if the class and version already have an agent.
	ErrTaken = fmt.Errorf("management class has an agent: %w", ib.EEXIST)
	// ErrTooManyAgents is returned at the limit of agents.
	ErrTooManyAgents = fmt.Errorf("too many management agents: %w", ib.ENOMEM)
	// ErrAgentClosed is returned by every call on an agent after Close.
	ErrAgentClosed = fmt.Errorf("management agent is closed: %w", ib.EINVAL)
	// ErrQueueFull is returned when the send queue is full.
	ErrQueueFull = fmt.Errorf("too many MADs wait to be sent: %w", ib.EAGAIN)
)

// Received is a MAD and its path. Both are valid until the handler returns.
type Received struct {
	MAD *mad.MAD // in the port's buffer: must not be changed or retained
	// From is the destination of an answer. Local is the address to which the
	// MAD was sent, PKey the matching entry of the port's table, and HopLimit
	// is 0.
	From Address

	psn  ib.PSN // of its packet, for the trace
	size int    // bytes of the UDP payload
}

// AgentConfig configures the MADs of an agent.
type AgentConfig struct {
	Class   mad.Class
	Version uint8        // of the class
	Methods []mad.Method // methods of unsolicited MADs; no responses
	// Info answers Get(ClassPortInfo), which does not reach the agent.
	Info mad.ClassPortInfo
	// Receive is called with each MAD that is not the answer to a Request. It
	// returns false for a MAD that it does not support: a Get or Set is then
	// answered with "unsupported attribute", anything else is dropped. It must
	// not block. It may call the agent, and the interface except Receive,
	// Transmit and Advance.
	Receive func(now clock.Instant, r *Received) bool
}

// Agent is the user of one class of MADs.
type Agent struct {
	g       *Interface
	cfg     AgentConfig
	number  uint32
	methods [2]uint64 // bit set of cfg.Methods
	closed  bool
}

// Register adds an agent. Errors: ErrTaken if the class and version have one,
// ErrTooManyAgents, and EINVAL for a response among the methods or for methods
// without Receive.
func (g *Interface) Register(c AgentConfig) (*Agent, error) {
	a := &Agent{g: g, cfg: c, number: g.next}
	for _, m := range c.Methods {
		if m.IsResponse() {
			return nil, fmt.Errorf("agent of class %v for method %v: a response goes to who asked: %w", c.Class, m, ib.EINVAL)
		}
		a.methods[m>>6] |= 1 << (m & 63)
	}
	if len(c.Methods) > 0 && c.Receive == nil {
		return nil, fmt.Errorf("agent of class %v takes methods and has nothing to receive them: %w", c.Class, ib.EINVAL)
	}
	if taken, _ := g.find(c.Class, c.Version); taken != nil {
		return nil, fmt.Errorf("class %v version %d: %w", c.Class, c.Version, ErrTaken)
	}
	if len(g.agents) == maxAgents {
		return nil, ErrTooManyAgents
	}
	g.next++
	g.agents = append(g.agents, a)
	return a, nil
}

// find returns the agent of a class and version, and whether the class has
// one of any version.
func (g *Interface) find(c mad.Class, version uint8) (a *Agent, known bool) {
	for _, e := range g.agents {
		if e.cfg.Class != c {
			continue
		}
		known = true
		if e.cfg.Version == version {
			return e, true
		}
	}
	return nil, known
}

// Close closes the agent: its requests end with ErrCanceled at now, the oldest
// first, and its class is free. Queued MADs are still sent. A second Close does
// nothing.
func (a *Agent) Close(now clock.Instant) {
	if a.closed {
		return
	}
	a.closed = true
	a.g.agents = slices.DeleteFunc(a.g.agents, func(e *Agent) bool { return e == a })
	for _, t := range a.g.waiting.of(a) {
		t.Cancel(now)
	}
}

// TID returns a transaction ID of the agent as Linux lays it out: the agent's
// number in the upper half, low in reverse byte order in the lower half.
func (a *Agent) TID(low uint32) uint64 {
	return uint64(a.number)<<32 | uint64(bits.ReverseBytes32(low))
}

// Send sends a MAD once. It is copied. Errors: ErrQueueFull, ErrAgentClosed,
// EADDRNOTAVAIL for a local address that no port has, EINVAL for any
// other invalid address and for a MAD of another class. It does not block.
func (a *Agent) Send(_ clock.Instant, to Address, m *mad.MAD) error {
	r, err := a.admit(&to, m)
	if err != nil {
		return err
	}
	return a.g.enqueue(&r, m)
}

// Answer is Send for an answer whose receiver repeats its request if it is
// lost. It uses at most half of the queue, and returns ErrQueueFull beyond
// that, so that a flood of requests cannot block Send and Request.
func (a *Agent) Answer(_ clock.Instant, to Address, m *mad.MAD) error {
	r, err := a.admit(&to, m)
	if err != nil {
		return err
	}
	if r.queue.len() >= r.queue.max/2 {
		a.g.counters.QueueFull++
		return ErrQueueFull
	}
	return a.g.enqueue(&r, m)
}

// admit checks a MAD to send and its destination.
func (a *Agent) admit(to *Address, m *mad.MAD) (route, error) {
	h := m.Header()
	switch {
	case a.closed:
		return route{}, ErrAgentClosed
	case h.BaseVersion != mad.BaseVersion, h.Class != a.cfg.Class, h.ClassVersion != a.cfg.Version:
		return route{}, fmt.Errorf("MAD of class %v version %d from the agent of class %v version %d: %w",
			h.Class, h.ClassVersion, a.cfg.Class, a.cfg.Version, ib.EINVAL)
	}
	return a.g.resolve(to)
}

// takes reports whether unsolicited MADs of a method go to the agent.
func (a *Agent) takes(m mad.Method) bool { return m>>6 < 2 && a.methods[m>>6]>>(m&63)&1 != 0 }

// Retry configures how long a request waits for its answer.
type Retry struct {
	Timeout time.Duration // after each transmission; above 0
	Retries int           // number of repetitions
}

// Request sends a MAD until its answer arrives: a MAD of the peer's address
// with the same class and transaction ID, and the response method for m's. It
// is repeated, unchanged, as retry specifies. done is called once, never from
// Request itself: with the answer, with ErrTimeout, or with ErrCanceled after
// Cancel or Close. A request whose method has no response, such as Send, ends
// with Cancel or ErrTimeout.
//
// The first MAD counts as sent now, even if it is still queued. Errors, after
// which done is not called: those of Send, ErrTooManyTransactions,
// ErrDuplicate, and EINVAL for a retry without a time.
func (a *Agent) Request(now clock.Instant, to Address, m *mad.MAD, retry Retry, done Done) (*Transaction, error) {
	if retry.Timeout <= 0 || retry.Retries < 0 {
		return nil, fmt.Errorf("request with a timeout of %v and %d retries: %w", retry.Timeout, retry.Retries, ib.EINVAL)
	}
	r, err := a.admit(&to, m)
	if err != nil {
		return nil, err
	}
	t := newTransaction(a, &r, m)
	t.retry, t.done = retry, done
	if err := a.g.waiting.admits(t); err != nil {
		return nil, err
	}
	if err := a.g.enqueue(&r, m); err != nil {
		return nil, err
	}
	a.g.waiting.add(t, now.Add(retry.Timeout))
	return t, nil
}
