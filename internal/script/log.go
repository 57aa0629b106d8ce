package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
)

// log collects the events of a step in their order, and counts those that are
// shown, so that a counter that changed for no shown reason is shown too.
type log struct {
	now      clock.Instant
	lines    []*string
	at       clock.Instant // of the last line
	packets  []outgoing    // built, not yet shown
	made     *completion   // reported by the tracer, not yet found in its queue
	counters counters.Set  // as of the last step
	cause    string        // why connections change state
	seen     seen
	statuses set[ib.WCStatus]
	events   set[ib.EventType]
}

// seen counts the output lines of a step whose event a counter counts too.
type seen struct {
	sent, injected, moves, flushed uint64
	drops                          [counters.NumDrops]uint64
	cmSent, cmAgain                [cmKinds]uint64
}

// outgoing is a packet in the batch and the line that will show it.
type outgoing struct {
	qp   *pair
	line *string
}

// completion is an entry on its way into a queue.
type completion struct {
	qp     *pair
	id     uint64
	status ib.WCStatus
	line   *string
}

// say adds a line, after a line with the time if that has changed.
func (l *log) say(format string, args ...any) *string {
	if l.now != l.at {
		l.at = l.now
		t := "@" + time.Duration(l.now).String()
		l.lines = append(l.lines, &t)
	}
	return l.append(format, args...)
}

// append adds a line that belongs to the step, not to an instant.
func (l *log) append(format string, args ...any) *string {
	s := fmt.Sprintf(format, args...)
	l.lines = append(l.lines, &s)
	return &s
}

// take returns the lines of the step and clears the log.
func (l *log) take() []string {
	var out []string
	for _, line := range l.lines {
		out = append(out, strings.Split(*line, "\n")...)
	}
	l.lines, l.seen = nil, seen{}
	return out
}

// pairOf returns the queue pair with a number, a live one rather than a
// destroyed one; QP1 exists without being created.
func (r *registry) pairOf(n ib.QPN) *pair {
	var found *pair
	for _, q := range r.qps {
		if q.Num() == n && (found == nil || found.gone) {
			found = q
		}
	}
	if n == ib.QPNGSI && (found == nil || found.gone) {
		return &r.gsi
	}
	return found
}

// trace is the adapter's tracer.
func (w *world) trace(r *trace.Record) {
	w.settle()
	q := w.pairOf(r.QPN)
	if r.EEC {
		q = w.eecOf(ib.EECN(r.QPN))
	}
	switch r.Kind {
	case trace.PacketOut:
		w.packets = append(w.packets, outgoing{q, w.say("> %s", q.name)})
	case trace.State:
		w.seen.moves++
		w.showMove(q, r)
	case trace.Completion:
		w.note(r.Status)
		w.made = &completion{q, r.WRID, r.Status, w.say("")}
	case trace.Retry:
		w.rec.retry(q, r.Cause)
		w.say("retry %s from psn=%d (%s)", q.name, r.PSN.Value(), r.Cause)
	case trace.Repair:
		w.say("repair %s from psn=%d (%s)", q.name, r.PSN.Value(), r.Cause)
	case trace.Challenge:
		w.say("%s: %s", q.name, r.Cause)
	case trace.Drop:
		if slices.Contains(unread, r.Cause) {
			return // a line about the counter shows it
		}
		for d := range counters.NumDrops {
			if d.String() == r.Cause {
				w.seen.drops[d]++
			}
		}
		w.rec.drop(q)
		w.say("drop %s psn=%d (%s)", q.name, r.PSN.Value(), r.Cause)
	}
}

// showMove shows a state transition; one that continues the last line's, for
// the same cause, is appended to that line.
func (l *log) showMove(q *pair, r *trace.Record) {
	cause := " (" + r.Cause + ")"
	if n := len(l.lines); n > 0 && l.now == l.at {
		line, same := strings.CutSuffix(*l.lines[n-1], " -> "+r.From.String()+cause)
		if same && strings.HasPrefix(line, q.name+": ") {
			*l.lines[n-1] = line + " -> " + r.From.String() + " -> " + r.To.String() + cause
			return
		}
	}
	l.say("%s: %v -> %v%s", q.name, r.From, r.To, cause)
}

// note remembers a completion status, which the header may require.
func (l *log) note(s ib.WCStatus) {
	if l.statuses == nil {
		l.statuses = set[ib.WCStatus]{}
	}
	if s != ib.WCSuccess {
		l.statuses[s] = true
	}
	if s == ib.WCWRFlushErr {
		l.seen.flushed++
	}
}

// raise is the adapter's sink of events.
func (w *world) raise(e qp.Event) {
	w.settle()
	if w.log.events == nil {
		w.log.events = set[ib.EventType]{}
	}
	w.log.events[e.Type] = true
	who := "adapter"
	switch {
	case e.CQ != nil:
		for _, c := range w.cqs {
			if c.cq == e.CQ {
				who = c.name
			}
		}
	case e.SRQ != nil:
		for n, o := range w.objects {
			if s, ok := o.(*sharedQueue); ok && s.srq == e.SRQ {
				who = n
			}
		}
	case e.EEC != 0:
		if q := w.eecOf(e.EEC); q != nil {
			who = q.name
		}
	case e.Port != 0:
		who = fmt.Sprintf("port %d", e.Port)
	default:
		if q := w.pairOf(e.QPN); q != nil {
			who = q.name
		}
	}
	w.rec.event(who, e.Type)
	w.say("event %s %v", who, e.Type)
}

// settle shows state changes of connections, and looks for the last completion:
// in a queue that is polled at once, in one that the script polls, or lost
// because its queue was full.
func (w *world) settle() {
	w.connections.noteConns()
	c := w.made
	w.made = nil
	for _, k := range w.cqs {
		n := k.cq.Pending()
		grew := n > k.waiting
		if !k.manual {
			for wc, ok := k.poll(); ok; wc, ok = k.poll() {
				line := w.showWC(k, &wc)
				if c != nil && c.matches(&wc) {
					*c.line, c = line, nil
					continue
				}
				w.say("%s (unknown)", line)
			}
			n = 0
		} else if grew && c != nil {
			*c.line, c = fmt.Sprintf("cqe %s %d %v in %s", c.qp.name, c.id, c.status, k.name), nil
		}
		k.waiting = n
	}
	if c != nil {
		*c.line = fmt.Sprintf("lost cqe %s %d %v", c.qp.name, c.id, c.status)
	}
}

func (c *completion) matches(wc *ib.WC) bool {
	return wc.WRID == c.id && wc.Status == c.status && wc.QPN == c.qp.Num()
}

// showMemory shows the bytes of regions that have changed.
func (w *world) showMemory() {
	for _, m := range w.mrs {
		for from := 0; from < len(m.last); {
			if m.buf[from] == m.last[from] {
				from++
				continue
			}
			to, same := from+1, 0
			for i := to; i < len(m.buf) && same < 8; i++ {
				same++
				if m.buf[i] != m.last[i] {
					to, same = i+1, 0
				}
			}
			w.append("mem %s+%d: %s", m.name, from, ShowData(m.buf[from:to]))
			from = to
		}
		copy(m.last, m.buf)
	}
}

// unread are the reasons to drop a packet before its queue pair or EE context gets it.
var unread = []string{counters.DropICRC.String(), counters.DropNoQP.String(), counters.DropNoEEC.String()}

// early are the reasons to drop a packet before it counts as received.
var early = []counters.Drop{
	counters.DropMalformed, counters.DropICRC, counters.DropAddress, counters.DropNoQP, counters.DropNoEEC, counters.DropState,
	counters.DropService, counters.DropPKey, counters.DropQKey,
}

// showCounters shows the counters that have changed, without those that other
// lines explain.
func (w *world) showCounters() {
	was, is := w.counters, w.HCA.Counters()
	w.counters = is
	was.SentPkts += w.seen.sent
	was.RcvdPkts += w.seen.injected - is.Dropped(early...) + was.Dropped(early...)
	was.StateChanges += w.seen.moves
	was.CQEFlush += w.seen.flushed
	for d, n := range w.seen.drops {
		was.Drops[d] += n
	}
	var before []uint64
	was.Each(func(_ string, v uint64) { before = append(before, v) })
	var changed []string
	is.Each(func(name string, v uint64) {
		if d := int64(v - before[0]); d != 0 {
			changed = append(changed, fmt.Sprintf("%s %+d", name, d))
		}
		before = before[1:]
	})
	if changed = append(changed, w.connections.cmChanges()...); len(changed) > 0 {
		w.append("count: %s", strings.Join(changed, ", "))
	}
}
