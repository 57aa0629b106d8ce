package fault

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// Config configures a port.
type Config struct {
	Rules []*Live              // rules on packets
	Now   func() clock.Instant // since the adapter was opened; any thread calls it
	Trace trace.Tracer         // gets a record of each packet that a rule acts on; may be nil
	Mark  func(*Mark)          // called from Send and Receive for each packet that a rule acts on; may be nil
	// Acted is called from Send and Receive each time that a rule acts, before its effect: for Kill and Stop it is to have the effect. May be nil.
	Acted func(*Live)
	Count func(Subject) // called from Send and Receive for each packet, before the rules; may be nil
}

// Port is a port with faults. Runs and datagrams on which no rule acts pass
// unchanged. If a run loses, gains or reorders packets, the others are sent
// with updated ICRCs.
type Port struct {
	fabric.Port
	cfg   Config
	rules []*Live
	ways  Direction    // directions of all rules
	addrs []netip.Addr // of the port, in the order of the GID table

	pkt     roce.Packet
	verdict verdict
	rec     trace.Record

	out     *fabric.Batch // packets after the rules, and held packets that are due
	passed  int           // packets at the start of the caller's batch that the rules have seen
	err     error         // error of sending out, other than ErrBlocked
	gone    error         // what ended the adapter; nil: nothing
	leave   hold          // outgoing held packets
	lost    atomic.Uint64 // packets dropped because out was full
	scratch []byte        // buffer for a packet being changed

	inner  []fabric.Datagram // datagrams from the wrapped port
	ready  []fabric.Datagram // datagrams after the rules
	given  int               // datagrams of ready already returned
	ahead  int               // packets of the current datagram before the judged one that are not in ready yet
	arrive hold              // incoming held packets

	due    atomic.Int64 // clock.Instant: when the next held packet is due
	stuck  atomic.Bool  // the port did not accept all of out
	asleep atomic.Bool  // a thread is in Wait
}

var _ fabric.Port = (*Port)(nil)

const (
	outBytes = 512 << 10 // room for a batch and added packets
	inbox    = 16        // datagrams received from the wrapped port at once
)

// Wrap returns p with faults. The wrapper owns p. Only rules on packets count.
func Wrap(p fabric.Port, c Config) *Port {
	f := &Port{
		Port: p, cfg: c, inner: make([]fabric.Datagram, inbox),
		addrs: p.Caps().Addrs, out: fabric.NewBatch(outBytes, p.Caps()), leave: newHold(), arrive: newHold(),
	}
	for _, l := range c.Rules {
		if l.Action.Layer() == Packets {
			f.rules = append(f.rules, l)
			f.ways |= l.Dir()
		}
	}
	if c.Count != nil {
		f.ways = Both
	}
	f.due.Store(int64(clock.Never))
	return f
}

// acts reports whether a rule could act on packets of a direction now.
func (p *Port) acts(now clock.Instant, d Direction) bool {
	switch {
	case p.ways&d == 0:
		return false
	case p.cfg.Count != nil:
		return true
	}
	return slices.ContainsFunc(p.rules, func(l *Live) bool { return l.Dir()&d != 0 && (l.late != nil || l.Active(now)) })
}

// settle publishes when the next held packet is due, and wakes a Wait that
// would miss it.
func (p *Port) settle() {
	due := p.arrive.heap.Next()
	stuck := len(p.out.Pending()) > 0
	if !stuck { // otherwise it waits for the port, not for a time
		due = min(due, p.leave.heap.Next())
	}
	if p.given < len(p.ready) {
		due = 0 // the caller's buffer was too small for all
	}
	was := clock.Instant(p.due.Swap(int64(due)))
	sticks := stuck && !p.stuck.Swap(stuck)
	if !stuck {
		p.stuck.Store(false)
	}
	if (due < was || sticks) && p.asleep.Load() {
		p.Port.Wake()
	}
}

// Wait implements fabric.Port. It also returns when a held packet is due, and
// at once while received packets are still in ready.
func (p *Port) Wait(timeout time.Duration, read, write bool) error {
	p.asleep.Store(true)
	defer p.asleep.Store(false)
	if due := clock.Instant(p.due.Load()); due != clock.Never && read {
		d := max(due.Sub(p.cfg.Now()), time.Microsecond)
		if timeout < 0 || d < timeout {
			timeout = d
		}
	}
	return p.Port.Wait(timeout, read, write || p.stuck.Load())
}

// Stats implements fabric.Port. Packets dropped for lack of room count as
// refused.
func (p *Port) Stats() fabric.Stats {
	s := p.Port.Stats()
	s.SendErrors += p.lost.Load()
	return s
}
