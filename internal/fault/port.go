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

// Config says what a port does.
type Config struct {
	Rules []*Live              // those on packets
	Now   func() clock.Instant // since the adapter was opened; any thread calls it
	Trace trace.Tracer         // gets a record of each packet that a rule acts on; may be nil
	Mark  func(*Mark)          // is told of each packet that a rule acts on, from within Send and Receive; may be nil
}

// Port is a port with faults. Packets that no rule acts on pass in the runs
// and datagrams that they are in; of a run that loses or gains packets, or
// changes places, the rest is sent with right ICRCs.
type Port struct {
	fabric.Port
	cfg   Config
	rules []*Live
	ways  Direction    // of all rules together
	addrs []netip.Addr // of the port, in the order of the GID table

	pkt  roce.Packet
	fate fate
	rec  trace.Record

	out     *fabric.Batch // what the rules have made of batches, and what is due
	passed  int           // packets at the head of the caller's batch that were judged
	err     error         // of sending out, other than being blocked
	leave   hold          // packets that are to leave later
	lost    atomic.Uint64 // packets that left no room in out
	scratch []byte        // a packet that is being changed

	inner  []fabric.Datagram // what the wrapped port delivered
	ready  []fabric.Datagram // what the rules have made of it
	given  int               // of ready
	ahead  int               // packets of the datagram in hand that come before the one that is judged, and are not ready yet
	arrive hold              // packets that are to arrive later

	due    atomic.Int64 // clock.Instant: when something that is held back goes on
	stuck  atomic.Bool  // the port took not all of out
	asleep atomic.Bool  // somebody is in Wait
}

var _ fabric.Port = (*Port)(nil)

const (
	outBytes = 512 << 10 // room for a batch and what is added to it
	inbox    = 16        // datagrams taken from the wrapped port at once
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
	f.due.Store(int64(clock.Never))
	return f
}

// acts reports whether a rule could act on packets of a direction now.
func (p *Port) acts(now clock.Instant, d Direction) bool {
	if p.ways&d == 0 {
		return false
	}
	return slices.ContainsFunc(p.rules, func(l *Live) bool { return l.Dir()&d != 0 && (l.late != nil || l.Active(now)) })
}

// settle publishes when something goes on by itself, and wakes a Wait that
// would miss it.
func (p *Port) settle() {
	due := p.arrive.heap.Next()
	stuck := len(p.out.Pending()) > 0
	if !stuck { // else it waits for the port, not for the time
		due = min(due, p.leave.heap.Next())
	}
	if p.given < len(p.ready) {
		due = 0 // the caller had no room for all
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

// Wait implements fabric.Port. It also ends when a packet that was held back
// is due to leave or to arrive, and at once while some that arrived were not
// received yet.
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

// Stats implements fabric.Port. Packets that found no room are refused ones.
func (p *Port) Stats() fabric.Stats {
	s := p.Port.Stats()
	s.SendErrors += p.lost.Load()
	return s
}
