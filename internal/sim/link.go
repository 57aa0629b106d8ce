package sim

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/fabric/near/ring"
)

// link is a pair of rings between two carriers that have met, and what the oracle knows of it.
type link struct {
	w       *world
	sides   [2]side
	spoiled bool // a side wrote garbage: records may be lost
}

// side is one end of a link.
type side struct {
	c             *carrier
	local, remote netip.Addr
	out           *ring.Producer
	in            *ring.Consumer
	own           *ring.Plain // its memory
	id            int32       // of the peer in the port
	met           uint64      // arrivals at the socket before the meeting
	known         bool        // the port has met the peer
	rung          bool        // a wake-up waits
	closed        bool

	records []record    // that this side has to receive
	newest  uint64      // serial of the last record that it received
	begun   bool        // it has received one
	garbage func()      // writes it into the memory; nil: the process is correct
	counts  ring.Counts // of out, before the current Send
}

// record is a record in a ring.
type record struct {
	sum, serial uint64
	unsure      bool // it may have found no room
}

// side returns the end of a carrier.
func (l *link) side(c *carrier) *side {
	if l.sides[0].c == c {
		return &l.sides[0]
	}
	return &l.sides[1]
}

// other returns the end of the peer of a carrier.
func (l *link) other(c *carrier) *side {
	if l.sides[0].c == c {
		return &l.sides[1]
	}
	return &l.sides[0]
}

// meet makes the process, at an address, meet the one at another, if they are on one host.
func (c *carrier) meet(local, remote netip.Addr) {
	w := c.n.w
	to := w.At(remote)
	if to == nil || w.over {
		return
	}
	o := w.nodes[to.Index].carrier
	if c == o || c.closed || o.closed || w.plan.near.hosts[c.n.Index] != w.plan.near.hosts[o.n.Index] {
		return
	}
	l := &link{w: w}
	x, y := ring.NewPlain(w.plan.near.ring), ring.NewPlain(w.plan.near.ring)
	l.sides[0].own, l.sides[1].own = x, y
	l.sides[0].out, l.sides[0].in = ring.NewProducer(x.Memory, y.View), ring.NewConsumer(x.Memory, y.View)
	l.sides[1].out, l.sides[1].in = ring.NewProducer(y.Memory, x.View), ring.NewConsumer(y.Memory, x.View)
	l.sides[0].c, l.sides[0].local, l.sides[0].remote = c, local, remote
	l.sides[1].c, l.sides[1].local, l.sides[1].remote = o, remote, local
	first := w.host.IntN(2)
	w.Mark("near met")
	l.sides[first].c.soon(func() {
		l.begins(first)
		l.sides[1-first].c.soon(func() { l.begins(1 - first) })
	})
}

// soon does something after a while, or just after the next packet arrives from the network.
func (c *carrier) soon(do func()) {
	done := false
	once := func() {
		if !done {
			done = true
			do()
		}
	}
	c.n.w.After(c.draw(meetTime), once)
	if c.socket.next == nil {
		c.socket.next = once
	}
}

// begins makes the port of a side know the peer.
func (l *link) begins(i int) {
	s := &l.sides[i]
	if s.c.closed || l.sides[1-i].closed {
		s.closed = true
		l.told(&l.sides[1-i])
		return
	}
	s.known, s.met = true, s.c.socket.arrived
	s.c.links = append(s.c.links, l)
	l.w.disturb(s.c.n, l.sides[1-i].c.n)
	s.c.port.Met(s.local, near.Link{Identity: meeting.Identity{Addr: s.remote}, Out: s.out, In: s.in, Bell: &bell{l, i}})
	s.c.checkAsleep()
}

// told tells a side that the other has ended.
func (l *link) told(s *side) {
	if s.known && !s.closed {
		s.c.after(s.c.draw(endTime), func() {
			if !s.closed {
				s.c.port.Ended(s.id)
			}
		})
	}
}

// close closes the end of a carrier. Everything in its ring must have been received, unless its
// process has ended.
func (l *link) close(c *carrier) {
	s := l.side(c)
	if s.closed {
		return
	}
	s.closed = true
	c.links = slices.DeleteFunc(c.links, func(o *link) bool { return o == l })
	l.w.Mark("near ended")
	if n := s.certain(); n > 0 {
		l.w.disturb(c.n, l.other(c).c.n)
		if !c.closed && !l.spoiled {
			l.w.Fail("carrier", "adapter %d leaves %d records in a ring", c.n.Index, n)
		}
	}
	l.told(l.other(c))
}

// before notes what the side has sent.
func (s *side) before() { s.counts = s.out.Counts() }

// over reports whether the port must leave the link: there was garbage, or a later link with the
// same addresses has replaced it.
func (l *link) over(c *carrier) bool {
	s := l.side(c)
	for _, o := range c.links[slices.Index(c.links, l)+1:] {
		if n := o.side(c); n.local == s.local && n.remote == s.remote {
			return true
		}
	}
	return errors.Is(s.in.Err(), ring.ErrGarbage) || s.out.Err() != nil
}

// ofPath reports whether a datagram for the side is from its peer.
func (s *side) ofPath(d *fabric.Datagram) bool { return d.Src == s.remote && d.Dst == s.local }

// certain returns the number of records that the side must receive.
func (s *side) certain() (n int) {
	for _, r := range s.records {
		if !r.unsure {
			n++
		}
	}
	return n
}

// takes takes the next record of the ring, and reports whether it has a sum.
func (s *side) takes(sum uint64) bool {
	for i, r := range s.records {
		if r.sum == sum {
			s.newest = r.serial
			s.records = s.records[i+1:]
			return true
		}
		if !r.unsure {
			return false
		}
	}
	return false
}

// put notes the runs that the port of a carrier has put into the ring since before, and returns
// the number of their packets. The other side must be awake.
func (l *link) put(c *carrier, runs []fabric.Run) (packets uint64) {
	s, o, w := l.side(c), l.other(c), l.w
	counts := s.out.Counts()
	packets = counts.Packets - s.counts.Packets
	if packets == 0 {
		return 0
	}
	if o.closed || o.c.closed { // the process has ended, perhaps before it knew of the meeting, and this one does not know yet
		c.n.strained()
		return packets
	}
	mine := slices.DeleteFunc(slices.Clone(runs), func(r fabric.Run) bool { return r.Path.Src != s.local || r.Path.Dst != s.remote })
	for i := range mine {
		w.Net.Serial++
		o.records = append(o.records, record{sumOf(mine[i].Bytes, mine[i].Count), w.Net.Serial, uint64(len(mine)) != counts.Records-s.counts.Records})
	}
	if o.known {
		o.c.checkAsleep()
	}
	return packets
}

// dies leaves a ring as a process does that is killed while it writes: with a record that is not
// published, or not even complete.
func (s *side) dies(w *world) {
	n := 1 + w.host.IntN(2000)
	if b := s.out.Reserve(n, n); b != nil {
		for i := range b {
			b[i] = byte(w.host.Uint32())
		}
		if w.host.IntN(2) == 0 {
			s.out.Commit(n, n, 1, 0)
		}
	}
}

// The words of a ring's memory that a hostile process changes (layout.go of package ring).
const (
	headWord   = 0
	tailWord   = 32
	recordWord = 64
)

// spoil makes the process of a carrier write garbage into its memory, again and again.
func (l *link) spoil(c *carrier, r *rand.Rand) {
	l.spoiled = true
	words, x := l.side(c).own.Words, uint64(2+r.IntN(62))
	l.side(c).garbage = [...]func(){
		func() { words[headWord] |= x }, // neither a multiple of a line nor the end
		func() { words[headWord] += 2 * uint64(l.w.plan.near.ring) },
		func() { words[tailWord] |= x },
		func() { clear(words[recordWord:]) },
	}[r.IntN(4)]
}

// garble writes the garbage of this process.
func (c *carrier) garble() {
	for _, l := range c.links {
		if s := l.side(c); s.garbage != nil {
			c.n.strained()
			s.garbage()
		}
	}
}

// perturb makes the processes of a connection meet again, or this one write garbage or lose its
// processor.
func (c *carrier) perturb(a action, e *end, r *rand.Rand) {
	w := c.n.w
	switch a {
	case actMeet: // the processes of a connection, on the addresses in use
		e.node.carrier.meet(e.node.Addrs[e.paths.gid()], e.peer.node.Addrs[e.paths.gid()])
	case actStall:
		most := stallTime
		if r.IntN(4) > 0 {
			most = shortStall
		}
		c.stalled = max(c.stalled, w.Now.Add(time.Duration(r.Int64N(int64(most)))))
		c.after(c.stalled.Sub(w.Now), func() { c.n.strained() })
		c.n.strained()
	case actGarble:
		if len(c.links) > 0 {
			w.Mark("near garbage")
			c.links[r.IntN(len(c.links))].spoil(c, r)
			c.garble()
		}
	}
}

// bell is the Unix socket between the two processes of a link.
type bell struct {
	l *link
	i int
}

func (b *bell) side() *side { return &b.l.sides[b.i] }

// Wake implements near.Bell.
func (b *bell) Wake() error {
	o := &b.l.sides[1-b.i]
	if o.closed {
		return meeting.ErrGone
	}
	if o.rung = true; o.known {
		o.c.wakes()
	}
	return nil
}

// Woken implements near.Bell.
func (b *bell) Woken() error {
	b.side().rung = false
	return nil
}

// Close implements near.Bell.
func (b *bell) Close() error {
	b.l.close(b.side().c)
	return nil
}
