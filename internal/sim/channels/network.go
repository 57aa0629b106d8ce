package channels

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// packet is a segment in the network.
type packet struct {
	arrival deadline.Link
	to      *node
	damaged bool
	d       fabric.Datagram
}

// Delays of packets: of all, and the maximum of a late packet or of one on a
// path that is cut.
const (
	latency  = 5 * time.Microsecond
	lateness = 10 * time.Millisecond
)

// carry transports a run that an adapter has sent.
func (w *world) carry(from *node, run *fabric.Run) {
	to := w.byAddr[run.Path.Dst]
	var h roce.Packet
	for i := range run.Count {
		seg := run.Segment(i)
		w.packets++
		w.tell(from, "sends", seg)
		if to == nil || h.Parse(seg) != roce.FaultNone || h.Info.Service != roce.ServiceRD {
			w.fail("wire", "adapter %d sends to %v what is no packet of reliable datagrams", from.index, run.Path.Dst)
			return
		}
		e := to.ends[ib.EECN(h.RDETH.EEC)] // nil: it is destroyed
		if e != nil {
			e.peer.sniff(from, &h, &run.Path)
		}
		if e != nil && e.ch.isCut(w.now, to.path(run.Path.Dst)) {
			if w.net.IntN(3) > 0 {
				w.tell(from, "lost on the path that is cut", seg)
			} else {
				w.ship(to, run, i, w.delay()) // it is stuck, and arrives when the end may have left its path
			}
			continue
		}
		w.harm(from, to, run, i)
	}
}

// harm sends a segment after applying faults.
func (w *world) harm(from, to *node, run *fabric.Run, i int) {
	v := w.net.Float64()
	if w.healed {
		v = 1
	}
	p := &w.plan
	switch {
	case v < p.loss:
		w.tell(from, "lost", run.Segment(i))
	case v < p.loss+p.dup:
		w.ship(to, run, i, 0)
		w.ship(to, run, i, w.delay())
	case v < p.loss+p.dup+p.late:
		w.ship(to, run, i, w.delay())
	case v < p.loss+p.dup+p.late+p.damage:
		k := w.ship(to, run, i, 0)
		bit := w.net.IntN(8 * len(k.d.Bytes))
		if k.damaged = bit/8 != 4; k.damaged { // the ICRC does not cover byte 4
			k.d.Bytes[bit/8] ^= 1 << (bit % 8)
		}
	default:
		w.ship(to, run, i, 0)
	}
}

// delay draws the additional delay of a packet.
func (w *world) delay() time.Duration {
	most := int64(300 * time.Microsecond)
	if w.net.IntN(20) == 0 {
		most = int64(lateness)
	}
	return time.Duration(w.net.Int64N(most))
}

func (w *world) ship(to *node, run *fabric.Run, i int, delay time.Duration) *packet {
	p := &packet{to: to, d: fabric.Datagram{
		Bytes: append([]byte(nil), run.Segment(i)...), Src: run.Path.Src, Dst: run.Path.Dst, SrcPort: run.Path.SrcPort, DstPort: fabric.RoCEPort,
		ID: uint16(i), IDKnown: true, TClass: run.Path.TClass, HopLimit: run.Path.HopLimit,
	}}
	w.flight.Set(p, w.now.Add(latency+delay))
	return p
}

// arrive delivers a packet to an adapter.
func (w *world) arrive(p *packet) {
	if p.damaged {
		w.tell(p.to, "gets damaged", p.d.Bytes)
		w.hand(p.to, &p.d, "a damaged packet")
		return
	}
	w.tell(p.to, "gets", p.d.Bytes)
	var h roce.Packet
	_ = h.Parse(p.d.Bytes) // a packet that was sent
	e := p.to.ends[ib.EECN(h.RDETH.EEC)]
	if e != nil && e.left(&p.d) {
		w.mark("V15 packet over a path that was left")
		w.hand(p.to, &p.d, "a packet over a path that was left")
		return
	}
	if e != nil {
		e.heed(&h)
	}
	w.hand(p.to, &p.d, "")
}

// hand delivers a datagram to an adapter. If it must have no effect, idle is the
// reason: then no EE context may change, and nothing may complete.
func (w *world) hand(n *node, d *fabric.Datagram, idle string) {
	if idle == "" {
		n.hca.Shard().Receive(w.now, d)
		n.poll()
		return
	}
	before := n.shape()
	w.quiet = idle
	n.hca.Shard().Receive(w.now, d)
	n.poll()
	w.quiet = ""
	if now := n.shape(); now != before {
		w.fail("forged", "%s from %v to %v has an effect at adapter %d: %+v, before %+v", idle, d.Src, d.Dst, n.index, now, before)
	}
}

// tell records the fate of a packet.
func (w *world) tell(n *node, what string, seg []byte) {
	if !w.telling {
		return
	}
	var p roce.Packet
	if p.Parse(seg) != roce.FaultNone {
		w.say("%d %s what is no packet", n.index, what)
		return
	}
	more := ""
	if p.Info.Headers&roce.HasAETH != 0 {
		more = " " + p.AETH.Syndrome.String()
	}
	w.say("%d %s %v psn %d migreq %v eec %#x qp %v from %v%s len %d", n.index, what, p.BTH.Opcode, p.BTH.PSN.Value(), p.BTH.MigReq, p.RDETH.EEC,
		p.BTH.DestQP, p.DETH.SrcQP, more, len(p.Payload))
}
