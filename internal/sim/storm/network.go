package storm

import (
	"time"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/roce"
)

// way is one direction between two hosts.
type way [2]*host

// carry transports a run that from has sent, segment by segment.
func (w *world) carry(from *host, run *fabric.Run) {
	to := w.At(run.Path.Dst)
	for i := range run.Count {
		seg := run.Segment(i)
		w.Packets++
		w.sniff(from, seg)
		if to == nil { // the address of a forger
			continue
		}
		if w.Now < w.burst || w.cut.Has(way{from, w.hosts[to.Index]}, w.Now) {
			w.note(from, "lost: cut off", seg)
			continue
		}
		fate := w.outcome(seg)
		w.note(from, fate.String(), seg)
		w.Net.Suffer(fate, func(delay time.Duration) *virtual.Packet {
			return w.Ship(to, virtual.Arrival(run, i, i+1), 1, delay)
		})
	}
}

// fate draws the fate of a segment. A UC queue pair accepts any PSN, and so also
// a message of an earlier connection, if the peer has restarted and drawn the
// same QPN: the protocol has no protection from that, so no packet of UC
// outlives its connection.
func (w *world) outcome(seg []byte) virtual.Outcome {
	if w.Net.Rand.Float64() < w.loss {
		return virtual.Lost
	}
	f := w.Net.Odds.At(w.Net.Rand.Float64())
	if f == virtual.Repeated && roce.Opcode(seg[0]).Service() == roce.ServiceUC {
		return virtual.Whole
	}
	return f
}
