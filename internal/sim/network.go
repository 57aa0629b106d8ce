package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
)

// packet is a datagram in the network. Several segments of a run stay together
// until one of them is harmed.
type packet struct {
	arrival deadline.Link
	to      *node
	serial  uint64 // packets are numbered as they are sent
	segs    int
	damaged bool // its bytes changed: the receiver must not believe it
	forged  bool // its bytes are right and its sender is not
	lie     bool // a stranger answers an end that has sent no request: a capture that begins later looks the same
	d       fabric.Datagram
	buf     []byte
}

// network carries packets between the nodes, with faults.
type network struct {
	faults
	rand   *rand.Rand
	flight deadline.Heap[packet] // packets in the network, by arrival time
	free   []*packet
	serial uint64
	cut    map[*node]clock.Instant      // nodes that are cut off until then
	down   map[netip.Addr]clock.Instant // likewise addresses, of paths
	healed bool
}

func (n *network) init(f faults, seed uint64) {
	n.faults = f
	n.rand = rand.New(rand.NewPCG(seed, streamNet))
	n.cut, n.down = make(map[*node]clock.Instant), make(map[netip.Addr]clock.Instant)
	n.flight = deadline.New(func(p *packet) *deadline.Link { return &p.arrival })
}

// heal ends all faults.
func (n *network) heal() {
	n.healed = true
	n.loss, n.duplicate, n.reorder, n.corrupt, n.jitter = 0, 0, 0, 0, 0
	n.buffer = 1 << 20
	clear(n.cut)
	clear(n.down)
}

// isCut reports whether a node or an address is cut off.
func isCut[K comparable](cut map[K]clock.Instant, now clock.Instant, k K) bool {
	until, ok := cut[k]
	if ok && now >= until {
		delete(cut, k)
		return false
	}
	return ok
}

// parted reports whether a path from one node to another is cut.
func (n *network) parted(now clock.Instant, from, to *node, path *fabric.Path) bool {
	return len(n.cut) > 0 && (isCut(n.cut, now, from) || isCut(n.cut, now, to)) ||
		len(n.down) > 0 && (isCut(n.down, now, path.Src) || isCut(n.down, now, path.Dst))
}

// take allocates a packet of size bytes.
func (n *network) take(size int) *packet {
	p := new(packet)
	if k := len(n.free); k > 0 {
		p, n.free = n.free[k-1], n.free[:k-1]
	}
	if cap(p.buf) < size {
		p.buf = make([]byte, size)
	}
	*p = packet{buf: p.buf[:size]}
	return p
}

// release frees a packet.
func (n *network) release(p *packet) { n.free = append(n.free, p) }

// carry transports a run that from has sent.
func (w *world) carry(from *node, run *fabric.Run) {
	to := w.byAddr[run.Path.Dst]
	first := 0 // of the segments that travel together
	for i := range run.Count {
		seg := run.Segment(i)
		w.packets++
		w.sniff(from, run, seg)
		w.leaves(run, i)
		if to == nil {
			continue
		}
		safe := w.net.untouched(w.now, from, to, &run.Path)
		if safe && w.net.rate == 0 {
			continue
		}
		w.ship(from, to, run, [2]int{first, i})
		first = i + 1
		w.net.depart(w.now, from, len(seg))
		if safe {
			w.ship(from, to, run, [2]int{i, i + 1})
		} else {
			w.harm(from, to, run, i)
		}
	}
	if to != nil {
		w.ship(from, to, run, [2]int{first, run.Count})
	}
}

// depart sends size bytes from a port of a limited rate, after the bytes queued
// before.
func (n *network) depart(now clock.Instant, from *node, size int) {
	if n.rate > 0 {
		from.busy = max(from.busy, now).Add(time.Duration(float64(size) * 8e9 / n.rate))
	}
}

// untouched draws whether a packet is unharmed.
func (n *network) untouched(now clock.Instant, from, to *node, path *fabric.Path) bool {
	if n.healed {
		return true
	}
	if n.parted(now, from, to, path) {
		return false
	}
	return n.rand.Float64() >= n.loss+n.duplicate+n.reorder+n.corrupt
}

// harm applies one fault to segment i of a run.
func (w *world) harm(from, to *node, run *fabric.Run, i int) {
	n := &w.net
	w.disturb(from, to)
	if n.parted(w.now, from, to, &run.Path) {
		w.note(from, "lost: cut off", run.Segment(i))
		return
	}
	v := n.rand.Float64() * (n.loss + n.duplicate + n.reorder + n.corrupt)
	one := [2]int{i, i + 1}
	switch {
	case v < n.loss:
		w.note(from, "lost", run.Segment(i))
	case v < n.loss+n.duplicate:
		w.note(from, "duplicated", run.Segment(i))
		w.ship(from, to, run, one)
		w.shipLate(from, to, run, one)
	case v < n.loss+n.duplicate+n.reorder:
		w.note(from, "delayed", run.Segment(i))
		w.shipLate(from, to, run, one)
	default:
		w.note(from, "damaged", run.Segment(i))
		if p := w.ship(from, to, run, one); p != nil {
			w.damage(p)
		}
	}
}

// ship sends segments lo to hi of a run. It returns the packet, nil if there is
// none or the receiver's buffer is full.
func (w *world) ship(from, to *node, run *fabric.Run, part [2]int) *packet {
	return w.shipAfter(from, to, run, shipment{part: part})
}

// shipLate is ship with a long delay.
func (w *world) shipLate(from, to *node, run *fabric.Run, part [2]int) {
	most := 200 * time.Microsecond
	if w.net.rand.IntN(20) == 0 {
		most = 20 * time.Millisecond
	}
	w.shipAfter(from, to, run, shipment{part, time.Duration(w.net.rand.Int64N(int64(most)))})
}

// shipment is a part of a run and its additional delay.
type shipment struct {
	part  [2]int
	delay time.Duration
}

func (w *world) shipAfter(from, to *node, run *fabric.Run, s shipment) *packet {
	lo, hi := s.part[0], s.part[1]
	if lo == hi {
		return nil
	}
	n := &w.net
	if to.coming+hi-lo > n.buffer {
		fit := max(n.buffer-to.coming, 0)
		w.disturb(from, to)
		w.note(from, "lost: receive buffer full", run.Segment(lo+fit))
		if hi = lo + fit; lo == hi {
			return nil
		}
	}
	b := run.Bytes[lo*run.Size : min(hi*run.Size, len(run.Bytes))]
	p := n.take(len(b))
	copy(p.buf, b)
	p.to, p.segs = to, hi-lo
	p.d = fabric.Datagram{
		Bytes: p.buf, Src: run.Path.Src, Dst: run.Path.Dst, SrcPort: run.Path.SrcPort, DstPort: fabric.RoCEPort,
		ID: uint16(lo), IDKnown: true, TClass: run.Path.TClass, HopLimit: run.Path.HopLimit,
	}
	if p.segs > 1 {
		p.d.Stride = run.Size
	}
	at := max(w.now, from.busy).Add(n.latency + s.delay)
	if n.jitter > 0 {
		at = at.Add(time.Duration(n.rand.Int64N(int64(n.jitter))))
		w.disturb(from, to)
	}
	n.send(p, at)
	return p
}

// send schedules the arrival of a packet.
func (n *network) send(p *packet, at clock.Instant) {
	n.serial++
	p.serial = n.serial
	p.to.coming += p.segs
	n.flight.Set(p, at)
}

// damage changes a packet of one segment so that its ICRC is wrong: it flips
// bits, or removes or adds bytes. It does not touch the byte that the ICRC does
// not cover.
func (w *world) damage(p *packet) {
	r := w.net.rand
	p.damaged = true
	const uncovered = 4 // BTH: FECN, BECN and reserved bits
	switch r.IntN(4) {
	case 0:
		p.buf = p.buf[:1+r.IntN(len(p.buf)-1)]
	case 1:
		p.buf = append(p.buf, make([]byte, 4*(1+r.IntN(4)))...)
	default:
		first := r.IntN(len(p.buf) * 8)
		for k := range 1 + r.IntN(8) { // a burst that a 32-bit CRC always detects
			bit := (first + k) % (len(p.buf) * 8)
			if bit/8 == uncovered {
				bit = 0
			}
			p.buf[bit/8] ^= 1 << (bit % 8)
			if bit == 0 {
				break
			}
		}
	}
	p.d.Bytes = p.buf
}
