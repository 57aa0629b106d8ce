package sim

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/virtual"
)

// carrier is the port of a node in runs with shared memory: a near.Port over a socket of the
// simulated network, and the system of that port.
type carrier struct {
	n      *node
	port   *near.Port
	socket socket
	thread thread
	counts fabric.Counts
	ds     [16]fabric.Datagram
	links  []*link // that the port has, in the order of their meetings
	ids    []int32 // for Rung

	blocked bool          // the port waits for room in a ring
	head    *byte         // of the run for which it waits
	since   clock.Instant // and since when
	stalled clock.Instant // until then the thread has no processor
	closed  bool
}

var _ near.System = (*carrier)(nil)

// Times of the host, at most.
const (
	wakeTime   = 5 * time.Microsecond   // from a wake-up until the thread runs
	pollTime   = time.Microsecond       // between two reads of a thread that polls
	meetTime   = 300 * time.Microsecond // from an invitation to the meeting
	endTime    = 50 * time.Microsecond  // from the end of a process until another knows
	stallTime  = 30 * time.Millisecond  // without a processor, and most of the time
	shortStall = 500 * time.Microsecond
	// carrierTime bounds what a thread of the host adds to the way of a packet: it wakes up, and
	// reads the network only in some of its polls.
	carrierTime = wakeTime + 25*pollTime
)

// newCarrier opens the port of a node, and gives the node a batch for it.
func newCarrier(n *node, caps fabric.Caps) *carrier {
	c := &carrier{n: n}
	c.socket = socket{c: c, caps: caps}
	c.port = near.New(&c.socket, near.Config{Counts: &c.counts, Log: func(format string, args ...any) { n.w.Say(n.Index, format, args...) }}, c)
	n.Batch = fabric.NewBatch(n.w.plan.batch, c.lending())
	c.thread.begin(c)
	c.after(0, c.turn)
	return c
}

// lending returns the abilities of the port. Packets in rings have an ICRC all the same: with it,
// the adapters check each byte.
func (c *carrier) lending() fabric.Caps {
	caps := c.port.Caps()
	lend := caps.Lend
	caps.Lend = func(b *fabric.Batch, most int) []byte {
		room := lend(b, most)
		runs := b.Pending()
		runs[len(runs)-1].Bare = false
		if room != nil {
			c.n.w.Mark("near run lent")
		}
		return room
	}
	return caps
}

// after does something later, unless the carrier is closed.
func (c *carrier) after(d time.Duration, do func()) {
	c.n.w.After(d, func() {
		if !c.closed {
			do()
		}
	})
}

// draw draws a time up to a maximum.
func (c *carrier) draw(most time.Duration) time.Duration {
	return time.Duration(c.n.w.host.Int64N(int64(most)))
}

// transmit lets the adapter fill its batch, and sends it. It reports whether there is more to send
// now.
func (c *carrier) transmit() (more bool) {
	n := c.n
	if !c.flush() {
		return false
	}
	more = n.HCA.Single().Transmit(n.w.Now, n.Batch)
	runs := n.Batch.Pending()
	for i := range runs {
		for k := range runs[i].Count {
			n.depart(&runs[i], k)
		}
	}
	return c.flush() && more
}

// flush sends the batch, and reports whether it is empty.
func (c *carrier) flush() bool {
	b := c.n.Batch
	runs := b.Pending()
	if len(runs) == 0 {
		return true
	}
	lost := c.counts.Overflows.Load()
	for _, l := range c.links {
		l.side(c).before()
	}
	c.garble()
	c.socket.taken = c.socket.taken[:0]
	err := c.port.Send(b)
	c.account(runs[:len(runs)-len(b.Pending())], c.counts.Overflows.Load()-lost)
	if c.blocked || err != nil {
		c.n.strained()
	}
	c.blocks(err != nil)
	return err == nil
}

// roomTime is how long a port waits for room in a ring.
const roomTime = 10 * time.Millisecond

// blocks notes whether the port waits for room in a ring. It must not wait too long for one run.
func (c *carrier) blocks(blocked bool) {
	if c.blocked = blocked; !blocked {
		c.head = nil
		return
	}
	c.n.w.Mark("near ring full")
	if head := &c.n.Batch.Pending()[0].Bytes[0]; c.head != head {
		c.head, c.since = head, c.n.w.Now
	}
	if waits := c.n.w.Now.Sub(c.since); waits > roomTime {
		c.n.w.Fail("carrier", "adapter %d waits %v for room in a ring", c.n.Index, waits)
	}
	c.wakes() // to wait for room
}

// abandon loses the batch that waits for room in a ring, and reports whether there was one: no
// time passes while a program waits for a completion that must come at once.
func (c *carrier) abandon() bool {
	if !c.blocked {
		return false
	}
	c.n.Batch.Reset()
	c.blocks(false)
	c.n.strained()
	return true
}

// account compares what the port did with runs with what it reports, and notes the records that
// must now come out of rings. Lost packets found no room.
func (c *carrier) account(runs []fabric.Run, lost uint64) {
	w := c.n.w
	var near, inRings uint64
	own := slices.DeleteFunc(slices.Clone(runs), func(r fabric.Run) bool { return c.socket.took(&r) })
	for i := range own {
		near += uint64(own[i].Count)
	}
	for _, l := range c.links {
		inRings += l.put(c, own)
	}
	if near != inRings+lost {
		w.Fail("carrier", "adapter %d sends %d packets to other processes of its host: %d are in rings, and %d had no room", c.n.Index, near, inRings, lost)
	}
	if lost > 0 {
		w.MarkTimes("near packet lost", lost)
		c.n.strained()
	}
}

// receive reads the port once, and returns the number of datagrams.
func (c *carrier) receive() int {
	k, err := c.port.Receive(c.ds[:])
	c.n.w.Must(err)
	for i := range c.ds[:k] {
		if a := c.socket.passed(&c.ds[i]); a != nil {
			c.passNetwork(a)
		} else {
			c.passRing(&c.ds[i])
		}
	}
	return k
}

// passNetwork passes a datagram of the network to the adapter, unless a packet that was sent
// earlier is still in a ring.
func (c *carrier) passNetwork(a *arrival) {
	w := c.n.w
	for _, l := range c.links {
		s := l.side(c)
		if !s.ofPath(&a.Datagram) {
			continue
		}
		if a.Serial < s.newest {
			w.Mark("near reordered")
			w.disturb(c.n, l.other(c).c.n)
		}
		if s.begun && !l.spoiled && len(s.records) > 0 && s.records[0].serial < a.Serial && !s.records[0].unsure {
			w.Fail("carrier", "adapter %d gets a packet by the network before one that was put into the ring earlier", c.n.Index)
		}
	}
	c.n.coming -= a.Segments
	c.n.pass(&a.Packet)
	c.socket.release(a)
}

// passRing passes a datagram of a ring to the adapter, if it is the next one there.
func (c *carrier) passRing(d *fabric.Datagram) {
	w := c.n.w
	i := slices.IndexFunc(c.links, func(l *link) bool { return l.other(c).own.Contains(d.Bytes) })
	if i < 0 {
		w.Fail("carrier", "adapter %d gets a datagram of %d bytes from %v again, or from nowhere", c.n.Index, len(d.Bytes), d.Src)
		return
	}
	l := c.links[i]
	s := l.side(c)
	if !s.ofPath(d) || !s.takes(sumOf(d.Bytes, d.Segments())) {
		w.Fail("carrier", "adapter %d gets a datagram of %d bytes from %v that is not the next in its ring", c.n.Index, len(d.Bytes), d.Src)
		return
	}
	if !s.begun && c.socket.holds(d, s.met) {
		w.Fail("carrier", "adapter %d reads a new ring before packets that the network brought before the meeting", c.n.Index)
	}
	s.begun = true
	if c.n.coming > 0 { // one of these may have been sent earlier
		w.disturb(c.n, l.other(c).c.n)
	}
	w.MarkTimes("near packet", uint64(d.Segments()))
	c.n.pass(&virtual.Packet{To: c.n.Adapter, Datagram: *d, Segments: d.Segments(), Serial: s.newest, Sent: w.Now})
}

// linkTo returns the last link between two addresses, which is the one in use; nil if there is none.
func (c *carrier) linkTo(local, remote netip.Addr) *link {
	for _, l := range slices.Backward(c.links) {
		if s := l.side(c); s.local == local && s.remote == remote {
			return l
		}
	}
	return nil
}

// close ends the process: its port leaves all meetings, unless it is killed.
func (c *carrier) close(killed bool) {
	c.closed = true
	c.thread.stop()
	if !killed {
		c.n.w.Must(c.port.Close())
	}
	for _, l := range slices.Clone(c.links) {
		if killed {
			l.side(c).dies(c.n.w)
		}
		l.close(c)
	}
}

// idle reports whether nothing is on its way through the port, and it has left the links that are
// over.
func (c *carrier) idle() bool {
	pending := slices.ContainsFunc(c.links, func(l *link) bool { return l.side(c).certain() > 0 && !l.spoiled || l.over(c) })
	return len(c.n.Batch.Pending()) == 0 && len(c.socket.waiting) == 0 && len(c.socket.read) == 0 && !pending
}

// Now implements near.System.
func (c *carrier) Now() time.Time { return time.Unix(0, int64(c.n.w.Now)) }

// Invite implements near.System: some processes refuse.
func (c *carrier) Invite(local netip.Addr, k meeting.Key) {
	w := c.n.w
	if w.host.Float64() < w.plan.near.refusals {
		return
	}
	c.after(c.draw(meetTime), func() { c.meet(local, k.Addr) })
}

// Watch implements near.System.
func (c *carrier) Watch(b near.Bell, id int32) error {
	b.(*bell).side().id = id
	return nil
}

// Unwatch implements near.System.
func (c *carrier) Unwatch(b near.Bell) { b.(*bell).side().rung = false }

// Rung implements near.System.
func (c *carrier) Rung() []int32 {
	c.ids = c.ids[:0]
	for _, l := range c.links {
		if s := l.side(c); s.rung {
			c.ids = append(c.ids, s.id)
		}
	}
	return c.ids
}

// Close implements near.System.
func (c *carrier) Close() error { return nil }

// sumSeed is that of all sums of records, which are compared only with each other.
var sumSeed = maphash.MakeSeed()

// sumOf identifies a record by its bytes.
func sumOf(b []byte, segments int) uint64 { return maphash.Bytes(sumSeed, b)*31 + uint64(segments) }
