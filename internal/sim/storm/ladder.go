package storm

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// ladder keeps the last events unformatted, which costs little in a clean run.
type ladder struct {
	ring []rung
	n    uint64
}

// rung is one event.
type rung struct {
	at   clock.Instant
	host int    // -1 for none
	what string // a whole line, or, with a packet or a side, a few words
	pkt  glance
	side uint64
	try  uint32
	name fmt.Stringer // event or verb of the side
}

// glance holds the fields of a packet that a line shows.
type glance struct {
	op            roce.Opcode
	dest          ib.QPN
	psn           ib.PSN
	size          int
	attr          mad.AttrID // of a MAD; 0 for data
	local, remote uint32     // its communication IDs
	reason        mad.RejReason
}

func (l *ladder) init(n int) { l.ring = make([]rung, n) }

// note records the fate of a packet.
func (w *world) note(h *host, what string, seg []byte) {
	w.put(rung{at: w.now, host: h.index, what: what, pkt: glanceOf(seg)})
}

// tell records an event or a call of a side.
func (w *world) tell(s *side, what string, name fmt.Stringer) {
	w.put(rung{at: w.now, host: s.host.index, what: what, side: s.id, try: s.try, name: name})
}

// sayf records anything else.
func (w *world) sayf(format string, args ...any) {
	w.put(rung{at: w.now, host: -1, what: fmt.Sprintf(format, args...)})
}

func (w *world) put(g rung) {
	w.ladder.ring[w.ladder.n%uint64(len(w.ladder.ring))] = g
	w.ladder.n++
	if w.cfg.Trace != nil {
		// A failure to write the trace does not stop the run.
		_, _ = fmt.Fprintln(w.cfg.Trace, &g)
	}
}

// lines returns the kept events, oldest first.
func (l *ladder) lines() []string {
	var out []string
	for i := l.n - min(l.n, uint64(len(l.ring))); i < l.n; i++ {
		out = append(out, l.ring[i%uint64(len(l.ring))].String())
	}
	return out
}

// String returns one line.
func (g *rung) String() string {
	at := time.Duration(g.at)
	switch {
	case g.host < 0:
		return fmt.Sprintf("%14v    %s", at, g.what)
	case g.name != nil:
		return fmt.Sprintf("%14v %2d side %s %s %v", at, g.host, sideName(g.side, g.try), g.what, g.name)
	case g.pkt.attr == mad.AttrREJ:
		return fmt.Sprintf("%14v %2d %s: %v %08x %08x, %v", at, g.host, g.what, g.pkt.attr, g.pkt.local, g.pkt.remote, g.pkt.reason)
	case g.pkt.attr != 0:
		return fmt.Sprintf("%14v %2d %s: %v %08x %08x", at, g.host, g.what, g.pkt.attr, g.pkt.local, g.pkt.remote)
	default:
		return fmt.Sprintf("%14v %2d %s: %v psn %v to qp %v, %d bytes", at, g.host, g.what, g.pkt.op, g.pkt.psn, g.pkt.dest, g.pkt.size)
	}
}

// sideName names a side by the action that started its connection and its index
// among the sides of that connection; 0 is the active one.
func sideName(id uint64, try uint32) string {
	s := fmt.Sprintf("%d.%d", id>>sideBits-1, id&(1<<sideBits-1))
	if try > 1 {
		s += fmt.Sprintf(" (try %d)", try)
	}
	return s
}
