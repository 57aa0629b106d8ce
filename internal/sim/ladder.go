package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
)

// ladder keeps the last events unformatted, which costs little in a clean run.
type ladder struct {
	ring []rung
	n    uint64
}

// rung is one event.
type rung struct {
	at   clock.Instant
	node int
	what string
	seg  header
	size int
	rec  trace.Record
}

func (l *ladder) init(n int) { l.ring = make([]rung, n) }

func (l *ladder) next() *rung {
	r := &l.ring[l.n%uint64(len(l.ring))]
	l.n++
	return r
}

// verbose reports whether events are printed at once.
func (w *world) verbose() bool { return w.cfg.Trace != nil }

// log records a trace record of an adapter.
func (w *world) log(n *node, r *trace.Record) {
	g := w.ladder.next()
	g.at, g.node, g.what, g.rec = w.now, n.index, "", *r
	w.print(g)
}

// note records the fate of a packet that an adapter sent.
func (w *world) note(n *node, what string, seg []byte) {
	g := w.ladder.next()
	*g = rung{at: w.now, node: n.index, what: what, seg: headerOf(seg), size: len(seg)}
	w.print(g)
}

// sayf records anything else.
func (w *world) sayf(format string, args ...any) {
	g := w.ladder.next()
	*g = rung{at: w.now, node: -1, what: fmt.Sprintf(format, args...)}
	w.print(g)
}

func (w *world) print(g *rung) {
	if w.cfg.Trace != nil {
		// A failure to write the trace does not stop the run.
		_, _ = fmt.Fprintln(w.cfg.Trace, g)
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
	case g.node < 0:
		return fmt.Sprintf("%12v    %s", at, g.what)
	case g.what != "":
		return fmt.Sprintf("%12v %2d %s: %v psn %v to qp %v, %d bytes", at, g.node, g.what, g.seg.op, g.seg.psn, g.seg.dest, g.size)
	default:
		return fmt.Sprintf("%12v %2d %v", at, g.node, &g.rec)
	}
}

// sorted returns ends in the order of their numbers.
func sorted(m map[ib.QPN]*end) []*end {
	ends := make([]*end, 0, len(m))
	for _, e := range m {
		ends = append(ends, e)
	}
	slices.SortFunc(ends, func(a, b *end) int { return cmp.Compare(a.num, b.num) })
	return ends
}
