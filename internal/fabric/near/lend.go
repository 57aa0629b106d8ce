package near

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/near/ring"
)

// lookBack is the number of earlier runs among which a port looks for the last one to the same ring.
const lookBack = 32

// leastLent is the minimum size of the first packet of a run that is built in the ring. Send copies
// runs with a smaller one.
const leastLent = 512

// placed is the flag in Run.Place that says that the rest is a position in the ring. Positions are
// multiples of a cache line.
const placed = 1

// lend implements fabric.Caps.Lend: a large run to a peer is built in the ring, where Send only
// commits it.
//
// Of the pending runs to a peer, the first ones have a place in the ring, one after the other. A
// small run has none, and so neither has a run after it in the batch: Send copies both, in order.
func (p *Port) lend(b *fabric.Batch, most int) []byte {
	runs := b.Pending()
	run := &runs[len(runs)-1]
	r := p.toward(&run.Path, run.Slot)
	if r == nil {
		return nil
	}
	run.Bare = true
	if run.Size < leastLent {
		return nil
	}
	if p.lentTo != b {
		p.takeAllBack()
		p.lentTo = b
	}
	at, ok := r.placeAfter(runs[:len(runs)-1])
	if !ok {
		return nil
	}
	room := r.Out.Lend(at, run.Size, most)
	if room != nil {
		run.Place = at | placed
	}
	return room
}

// placeAfter returns the position in the ring to a peer that follows pending runs. ok is false if
// one of them that goes there has no place.
func (r *peer) placeAfter(runs []fabric.Run) (at uint64, ok bool) {
	for i := len(runs) - 1; i >= 0; i-- {
		switch last := &runs[i]; {
		case r.takes(last):
			return ring.After(last.Place&^placed, len(last.Bytes)), last.Place&placed != 0
		case len(runs)-i == lookBack:
			return 0, false
		}
	}
	return r.Out.Next(), true
}

// takes reports whether a run has the addresses and the slot of the peer.
func (r *peer) takes(run *fabric.Run) bool {
	return r.key.slot == run.Slot && r.key.remote == run.Path.Dst && r.key.local == run.Path.Src
}

// takeBack takes back what the port has lent of the ring to a peer. It comes before the end of that
// ring: its memory may be unmapped soon, and the same place may get another ring.
func (p *Port) takeBack(r *peer) { p.takeBackIf(r.takes) }

// takeAllBack takes back all that the port has lent.
func (p *Port) takeAllBack() { p.takeBackIf(func(*fabric.Run) bool { return true }) }

func (p *Port) takeBackIf(of func(*fabric.Run) bool) {
	if p.lentTo == nil {
		return
	}
	runs := p.lentTo.Pending()
	for i := range runs {
		if r := &runs[i]; of(r) {
			if r.Place = 0; r.Lent {
				p.lentTo.Own(r)
			}
		}
	}
}
