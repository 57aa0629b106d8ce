package demo

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// maxRecords bounds what a recorder keeps between two calls of take.
const maxRecords = 1024

// recorder keeps what an adapter does, to be shown.
type recorder struct {
	mu      sync.Mutex // guards what follows
	records []verbs.TraceRecord
	off     bool
}

// add is the adapter's Trace: it copies r and does not block.
func (r *recorder) add(rec *verbs.TraceRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.off && len(r.records) < maxRecords {
		r.records = append(r.records, *rec)
	}
}

// take returns what was recorded since the last call.
func (r *recorder) take() []verbs.TraceRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.records
	r.records = nil
	return taken
}

// record begins or ends recording, with nothing recorded.
func (r *recorder) record(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off, r.records = !on, nil
}

// ladderWidth is the columns between the two uprights of a ladder.
const ladderWidth = 49

// step is a record of one side.
type step struct {
	verbs.TraceRecord
	right bool // B's
}

// interleave returns all that A recorded and between it the moves of B's queue
// pair: before each packet those that B had made when it sent or got it.
func interleave(a, b []verbs.TraceRecord) (all []step) {
	moves := func(n int) {
		for i := range b[:n] {
			if b[i].Kind == verbs.TraceState || migrates(&b[i]) {
				all = append(all, step{b[i], true})
			}
		}
		b = b[n:]
	}
	for i := range a {
		r := &a[i]
		if far, isPacket := opposite(r.Kind); isPacket {
			at := slices.IndexFunc(b, func(o verbs.TraceRecord) bool { return o.Kind == far && samePacket(&o, r) })
			moves(at + 1) // none if B never saw the packet
		}
		all = append(all, step{*r, false})
	}
	moves(len(b))
	return all
}

// migrates reports whether a record is that of a path migration.
func migrates(r *verbs.TraceRecord) bool {
	return r.Kind == verbs.TraceEvent && r.Event == ib.EventPathMig
}

// opposite returns the kind of record that the other side has of a packet.
func opposite(k verbs.TraceKind) (far verbs.TraceKind, isPacket bool) {
	switch k {
	case verbs.TracePacketOut:
		return verbs.TracePacketIn, true
	case verbs.TracePacketIn, verbs.TraceFault: // B sent one that a rule of A's kept away
		return verbs.TracePacketOut, true
	default:
		return k, false
	}
}

// samePacket compares base transport headers and, as both QP 1 count alike, the
// datagrams between them.
func samePacket(a, b *verbs.TraceRecord) bool {
	if [roce.BTHLen]byte(a.Header[:]) != [roce.BTHLen]byte(b.Header[:]) {
		return false
	}
	m, o := a.MAD(), b.MAD()
	return m == nil || o == nil || *m == *o
}

// ladder draws the packets that left a and came to it, an arrow each, and the
// moves of both queue pairs, each with what it means beside it.
func (p *printer) ladder(a, b *node, steps []step) {
	left, right := "A "+a.addr, "B "+b.addr
	gap := max(1, ladderWidth+3-utf8.RuneCountInString(left)-utf8.RuneCountInString(right))
	p.line("")
	p.line("%s%*s%s", p.paint(bold, left), gap, "", p.paint(bold, right))
	var last time.Duration // of A
	waits := false         // for a timer, and not for a processor
	for i := range steps {
		r := &steps[i]
		if !r.right {
			if waits && p.pause(last, r.At) {
				waits = false
			}
			last, waits = r.At, waits || missing(r)
		}
		switch r.Kind {
		case verbs.TracePacketOut, verbs.TracePacketIn:
			p.arrow(&r.TraceRecord)
		case verbs.TraceState:
			p.move(r)
		case verbs.TraceEvent:
			if migrates(&r.TraceRecord) {
				p.rung(yellow, center(sideOf(r)+" moves to the alternate path"), pathOf(a, b))
			}
		case verbs.TraceRetry, verbs.TraceRepair:
			p.rung(plain, center("sends again from psn "+r.PSN.String()), r.Cause)
		case verbs.TraceDrop:
			p.rung(plain, center("drops psn "+r.PSN.String()), r.Cause)
		case verbs.TraceFault:
			p.rung(red, center("✗ "+faultLabel(&r.TraceRecord)), "fault on demand: "+r.Cause)
		}
	}
}

// missing reports whether a packet is lost or finds no receive, so that A waits for a timer.
func missing(r *step) bool {
	if r.Kind != verbs.TracePacketIn {
		return r.Kind == verbs.TraceFault
	}
	var pkt roce.Packet
	return pkt.ParseHeaders(r.Header[:]) == roce.FaultNone && pkt.Info.Headers&roce.HasAETH != 0 && pkt.AETH.Syndrome.IsRNR()
}

// sideOf names the side that a step is of.
func sideOf(r *step) string {
	if r.right {
		return "B"
	}
	return "A"
}

// pause shows that nothing happened for long, and reports whether it was long.
func (p *printer) pause(from, to time.Duration) bool {
	d := to - from
	if from == 0 || d < notable {
		return false
	}
	p.rung(dim, center("· · ·"), d.Round(time.Millisecond).String()+" later")
	return true
}

// notable is how long a pause is shown from.
const notable = 200 * time.Millisecond

// end leaves a ladder.
func (p *printer) end() { p.line("") }

// rung writes one line between the uprights and what it means, which may take
// more lines.
func (p *printer) rung(st style, body, meaning string) {
	const frame = 8 // margin, uprights and the blanks beside them
	lines := text.Wrap(meaning, p.columns()-frame-ladderWidth, 0)
	p.line(" │%s│  %s", p.paint(st, body), lines[0])
	for _, s := range lines[1:] {
		p.line(" │%*s│  %s", ladderWidth, "", s)
	}
}

// move shows a queue pair in a new state, on its side.
func (p *printer) move(r *step) {
	st, text := dim, fmt.Sprintf(" %v → %v ", r.From, r.To)
	if r.To == ib.ERR {
		st = red
	}
	blank := strings.Repeat(" ", max(0, ladderWidth-utf8.RuneCountInString(text)))
	if r.right {
		p.rung(st, blank+text, explainMove(r))
		return
	}
	p.rung(st, text+blank, explainMove(r))
}

// arrow draws one packet.
func (p *printer) arrow(r *verbs.TraceRecord) {
	var pkt roce.Packet
	if fault := pkt.ParseHeaders(r.Header[:]); fault != roce.FaultNone {
		p.rung(plain, center("unreadable: "+fault.String()), "")
		return
	}
	n := r.Len - int(pkt.Info.HeaderLen) - int(pkt.BTH.PadCnt) - roce.ICRCLen
	refused := pkt.Info.Headers&roce.HasAETH != 0 && !pkt.AETH.Syndrome.IsACK()
	label, meaning := label(&pkt, n), explain(&pkt, n)
	if m := r.MAD(); m != nil {
		label, meaning = explainMAD(m)
		refused = strings.HasPrefix(label, mad.AttrREJ.String()+" ")
	}
	// A dash and an arrow head, and a blank on each side of the label.
	line := strings.Repeat("─", max(0, ladderWidth-4-utf8.RuneCountInString(label)))
	st := cyan
	if refused {
		st = red
	}
	body := "─ " + label + " " + line + "▶"
	if r.Kind == verbs.TracePacketIn {
		body = "◀" + line + " " + label + " ─"
	}
	p.rung(st, body, meaning)
}

// label names a packet: operation, sequence number, and payload or syndrome.
func label(pkt *roce.Packet, n int) string {
	_, op, _ := strings.Cut(pkt.BTH.Opcode.String(), "_")
	s := fmt.Sprintf("%s psn %v", op, pkt.BTH.PSN)
	if pkt.Info.Kind == roce.KindAck {
		return s + " " + pkt.AETH.Syndrome.String()
	}
	if n > 0 {
		s += fmt.Sprintf(" %d B", n)
	}
	return s
}

// faultLabel names what a rule acted on.
func faultLabel(r *verbs.TraceRecord) string {
	if r.Len == 0 {
		return "qp " + r.QPN.String()
	}
	if m := r.MAD(); m != nil {
		s, _ := explainMAD(m)
		return s
	}
	return fmt.Sprintf("%v psn %v", roce.Opcode(r.Header[0]), r.PSN)
}

// center puts text in the middle between the uprights.
func center(s string) string {
	blank := max(0, ladderWidth-utf8.RuneCountInString(s))
	return strings.Repeat(" ", blank/2) + s + strings.Repeat(" ", blank-blank/2)
}
