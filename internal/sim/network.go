package sim

import (
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
)

// parted reports whether a path from one node to another is cut.
func (w *world) parted(from, to *node, path *fabric.Path) bool {
	return len(w.cut) > 0 && (w.cut.Has(from, w.Now) || w.cut.Has(to, w.Now)) ||
		len(w.down) > 0 && (w.down.Has(path.Src, w.Now) || w.down.Has(path.Dst, w.Now))
}

// heal ends all faults.
func (w *world) heal() {
	w.Net.Heal(w.Now)
	w.ports.jitter, w.ports.buffer = 0, noLimit
	clear(w.cut)
	clear(w.down)
}

// carry transports a run that from has sent. Several segments of a run stay
// together until one of them is harmed.
func (w *world) carry(from *node, run *fabric.Run) {
	var to *node
	if a := w.At(run.Path.Dst); a != nil {
		to = w.nodes[a.Index]
	}
	first := 0 // of the segments that travel together
	for i := range run.Count {
		seg := run.Segment(i)
		if from.carrier == nil { // a carrier has counted it
			from.depart(run, i)
		}
		if to == nil {
			continue
		}
		safe := w.untouched(from, to, &run.Path)
		if safe && w.ports.rate == 0 {
			continue
		}
		j := journey{from, to, run}
		w.ship(j, [2]int{first, i}, 0)
		first = i + 1
		if w.ports.rate > 0 { // it leaves after the bytes queued before
			from.busy = max(from.busy, w.Now).Add(time.Duration(float64(len(seg)) * 8e9 / w.ports.rate))
		}
		if safe {
			w.ship(j, [2]int{i, i + 1}, 0)
		} else {
			w.harm(j, i)
		}
	}
	if to != nil {
		w.ship(journey{from, to, run}, [2]int{first, run.Count}, 0)
	}
}

// depart counts and checks segment i of a run that the adapter sends, by whatever way.
func (n *node) depart(run *fabric.Run, i int) {
	n.w.Packets++
	n.w.sniff(n, run, run.Segment(i))
	n.w.leaves(run, i)
}

// journey is a run on its way from one node to another.
type journey struct {
	from, to *node
	run      *fabric.Run
}

// untouched draws whether a packet is unharmed.
func (w *world) untouched(from, to *node, path *fabric.Path) bool {
	if w.Net.IsHealed() {
		return true
	}
	return !w.parted(from, to, path) && w.Net.Rand.Float64() >= w.Net.Odds.Sum()
}

// harm applies one fault to segment i of a run.
func (w *world) harm(j journey, i int) {
	w.disturb(j.from, j.to)
	if w.parted(j.from, j.to, &j.run.Path) {
		w.note(j.from, "lost: cut off", j.run.Segment(i))
		return
	}
	fate := w.Net.Odds.At(w.Net.Rand.Float64() * w.Net.Odds.Sum())
	w.note(j.from, fate.String(), j.run.Segment(i))
	w.Net.Suffer(fate, func(delay time.Duration) *virtual.Packet { return w.ship(j, [2]int{i, i + 1}, delay) })
}

// ship sends segments part[0] to part[1] of a run with an additional delay. It
// returns the packet, nil if there is none or the receiver's buffer is full.
func (w *world) ship(j journey, part [2]int, delay time.Duration) *virtual.Packet {
	lo, hi := part[0], part[1]
	if lo == hi {
		return nil
	}
	if j.to.coming+hi-lo > w.ports.buffer {
		fit := max(w.ports.buffer-j.to.coming, 0)
		w.disturb(j.from, j.to)
		w.note(j.from, "lost: receive buffer full", j.run.Segment(lo+fit))
		if hi = lo + fit; lo == hi {
			return nil
		}
	}
	if w.ports.rate > 0 {
		delay += max(j.from.busy.Sub(w.Now), 0)
	}
	if w.ports.jitter > 0 {
		delay += time.Duration(w.Net.Rand.Int64N(int64(w.ports.jitter)))
		w.disturb(j.from, j.to)
	}
	return w.send(j.to, virtual.Arrival(j.run, lo, hi), hi-lo, delay)
}

// send sends a datagram of some segments to a node.
func (w *world) send(to *node, d fabric.Datagram, segments int, delay time.Duration) *virtual.Packet {
	to.coming += segments
	return w.Ship(to.Adapter, d, segments, delay)
}

// note records the fate of a packet that an adapter sent.
func (w *world) note(n *node, what string, seg []byte) {
	if w.Telling() {
		h := headerOf(seg)
		w.Say(n.Index, "%s: %v psn %v to qp %v, %d bytes", what, h.op, h.psn, h.dest, len(seg))
	}
}
