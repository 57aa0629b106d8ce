package channels

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// Delays of packets: of all, and the maximum of a late packet or of one on a
// path that is cut.
const (
	latency  = 5 * time.Microsecond
	lateness = 10 * time.Millisecond
)

// carry transports a run that an adapter has sent.
func (w *world) carry(from *node, run *fabric.Run) {
	var to *node
	if a := w.At(run.Path.Dst); a != nil {
		to = w.nodes[a.Index]
	}
	var h roce.Packet
	for i := range run.Count {
		seg := run.Segment(i)
		w.Packets++
		w.tell(from, "sends", seg)
		if to == nil || h.Parse(seg) != roce.FaultNone || h.Info.Service != roce.ServiceRD {
			w.Fail("wire", "adapter %d sends %v a packet that is not of reliable datagrams", from.Index, run.Path.Dst)
			return
		}
		e := to.ends[ib.EECN(h.RDETH.EEC)] // nil: it is destroyed
		if e != nil {
			e.peer.sniff(from, &h, &run.Path)
		}
		if e != nil && e.ch.isCut(w.Now, to.path(run.Path.Dst)) {
			if w.Net.Rand.IntN(3) > 0 {
				w.tell(from, "lost on the path that is cut", seg)
			} else {
				w.ship(to, run, i, w.Net.Late.Draw(w.Net.Rand)) // it is stuck, and arrives when the end may have left its path
			}
			continue
		}
		fate := w.Net.Odds.At(w.Net.Rand.Float64())
		if fate != virtual.Whole {
			w.tell(from, fate.String(), seg)
		}
		w.Net.Suffer(fate, func(delay time.Duration) *virtual.Packet { return w.ship(to, run, i, delay) })
	}
}

func (w *world) ship(to *node, run *fabric.Run, i int, delay time.Duration) *virtual.Packet {
	return w.Ship(to.Adapter, virtual.Arrival(run, i, i+1), 1, delay)
}

// arrive delivers a packet to an adapter.
func (w *world) arrive(p *virtual.Packet) {
	n := w.nodes[p.To.Index]
	if p.Damaged {
		w.tell(n, "gets damaged", p.Datagram.Bytes)
		w.hand(n, &p.Datagram, "a damaged packet")
		return
	}
	w.tell(n, "gets", p.Datagram.Bytes)
	var h roce.Packet
	_ = h.Parse(p.Datagram.Bytes) // a packet that was sent
	e := n.ends[ib.EECN(h.RDETH.EEC)]
	if e != nil && e.left(&p.Datagram) {
		w.Mark("V15 packet over a path that was left")
		w.hand(n, &p.Datagram, "a packet over a path that was left")
		return
	}
	if e != nil {
		e.obey(&h)
	}
	w.hand(n, &p.Datagram, "")
}

// hand delivers a datagram to an adapter. If it must have no effect, idle is the
// reason: then no EE context may change, and nothing may complete.
func (w *world) hand(n *node, d *fabric.Datagram, idle string) {
	if idle == "" {
		n.HCA.Single().Receive(w.Now, d)
		n.poll()
		return
	}
	before := n.shape()
	w.quiet = idle
	n.HCA.Single().Receive(w.Now, d)
	n.poll()
	w.quiet = ""
	if now := n.shape(); now != before {
		w.Fail("forged", "%s from %v to %v has an effect at adapter %d: %+v, before %+v", idle, d.Src, d.Dst, n.Index, now, before)
	}
}

// tell records the fate of a packet.
func (w *world) tell(n *node, what string, seg []byte) {
	if !w.Telling() {
		return
	}
	var p roce.Packet
	if p.Parse(seg) != roce.FaultNone {
		w.Say(n.Index, "%s a malformed packet", what)
		return
	}
	more := ""
	if p.Info.Headers&roce.HasAETH != 0 {
		more = " " + p.AETH.Syndrome.String()
	}
	w.Say(n.Index, "%s %v psn %d migreq %v eec %#x qp %v from %v%s len %d", what, p.BTH.Opcode, p.BTH.PSN.Value(), p.BTH.MigReq, p.RDETH.EEC,
		p.BTH.DestQP, p.DETH.SrcQP, more, len(p.Payload))
}
