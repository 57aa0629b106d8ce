package storm

import (
	"math/rand/v2"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// faults are shares of packets, and times.
type faults struct {
	loss, duplicate, late, old, corrupt float64
	latency                             time.Duration
	lateBy                              time.Duration // maximum delay of a reordered packet
	oldBy                               time.Duration // maximum delay of a packet that outlives its connection
}

// packet is a datagram of one segment in the network.
type packet struct {
	arrival deadline.Link
	sent    clock.Instant
	to      *host
	damaged bool   // its bytes changed: the receiver must drop it
	forged  string // why it must have no effect; empty: it may
	d       fabric.Datagram
	buf     []byte
}

// way is one direction between two hosts.
type way [2]*host

// network carries packets between the hosts, with faults.
type network struct {
	faults
	flight deadline.Heap[packet] // packets in the network, by arrival time
	rand   *rand.Rand
	free   []*packet
	cut    map[way]clock.Instant // ways on which nothing arrives until then
	burst  clock.Instant         // until which nothing arrives at all
}

func (n *network) init(f faults, seed uint64) {
	n.faults = f
	n.rand = rand.New(rand.NewPCG(seed, streamNet))
	n.cut = make(map[way]clock.Instant)
	n.flight = deadline.New(func(p *packet) *deadline.Link { return &p.arrival })
}

// heal ends all faults. Packets in the network stay there.
func (n *network) heal() {
	n.faults = faults{latency: n.latency}
	n.burst = 0
	clear(n.cut)
}

// release frees a packet.
func (n *network) release(p *packet) { n.free = append(n.free, p) }

// carry transports a run that from has sent, segment by segment.
func (w *world) carry(from *host, run *fabric.Run) {
	to := w.byAddr[run.Path.Dst]
	for i := range run.Count {
		seg := run.Segment(i)
		w.packets++
		w.sniff(from, seg)
		if to == nil { // the address of a forger
			continue
		}
		w.fate(way{from, to}, &parcel{path: &run.Path, seg: seg, id: uint16(i)})
	}
}

// parcel is a segment that is being sent.
type parcel struct {
	path *fabric.Path
	seg  []byte
	id   uint16
}

// fate decides the fate of a segment.
func (w *world) fate(on way, p *parcel) {
	n := &w.net
	from := on[0]
	switch {
	case w.now < n.burst, n.cutOff(on, w.now):
		w.note(from, "lost: cut off", p.seg)
		return
	case n.rand.Float64() < n.loss:
		w.note(from, "lost", p.seg)
		return
	}
	switch v := n.rand.Float64(); {
	case v < n.duplicate:
		w.note(from, "sent twice", p.seg)
		w.ship(on, p, 0)
		w.ship(on, p, n.upTo(n.lateBy))
	case v < n.duplicate+n.late:
		w.note(from, "sent, late", p.seg)
		w.ship(on, p, n.upTo(n.lateBy))
	case v < n.duplicate+n.late+n.old && ages(p.seg):
		w.note(from, "sent, and once more much later", p.seg)
		w.ship(on, p, 0)
		w.ship(on, p, n.upTo(n.oldBy))
	case v > 1-n.corrupt:
		w.note(from, "sent, damaged", p.seg)
		n.damage(w.ship(on, p, 0))
	default:
		w.note(from, "sent", p.seg)
		w.ship(on, p, 0)
	}
}

// ages reports whether a packet may outlive its connection. A UC queue pair
// accepts any PSN, and so also a message of an earlier connection, if the peer
// has restarted and drawn the same QPN: the protocol has no protection from
// that.
func ages(seg []byte) bool { return roce.Opcode(seg[0]).Service() != roce.ServiceUC }

func (n *network) cutOff(on way, now clock.Instant) bool {
	until, ok := n.cut[on]
	if ok && now >= until {
		delete(n.cut, on)
		return false
	}
	return ok
}

// upTo draws a time.
func (n *network) upTo(most time.Duration) time.Duration {
	return time.Duration(n.rand.Int64N(int64(most) + 1))
}

// ship schedules the arrival of a segment.
func (w *world) ship(on way, p *parcel, delay time.Duration) *packet {
	n := &w.net
	pkt := n.take(p.seg)
	pkt.sent, pkt.to = w.now, on[1]
	pkt.d = fabric.Datagram{
		Bytes: pkt.buf, Src: p.path.Src, Dst: p.path.Dst, SrcPort: p.path.SrcPort, DstPort: fabric.RoCEPort,
		ID: p.id, IDKnown: true, TClass: p.path.TClass, HopLimit: p.path.HopLimit,
	}
	n.flight.Set(pkt, w.now.Add(n.latency+delay))
	return pkt
}

// take returns a packet with a copy of some bytes.
func (n *network) take(seg []byte) *packet {
	p := new(packet)
	if k := len(n.free); k > 0 {
		p, n.free = n.free[k-1], n.free[:k-1]
	}
	*p = packet{buf: append(p.buf[:0], seg...)}
	return p
}

// damage flips some bits close together, which a CRC always detects, in bytes
// that the ICRC covers.
func (n *network) damage(p *packet) {
	const covered = 5 // the byte before it, FECN and BECN, is not
	p.damaged = true
	first := covered*8 + n.rand.IntN(len(p.buf)*8-covered*8-32)
	for k := range 1 + n.rand.IntN(8) {
		p.buf[(first+k)/8] ^= 1 << ((first + k) % 8)
	}
}
