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

// maxRecords is the maximum number of records between two calls of take.
const maxRecords = 1024

// recorder keeps the trace records of an adapter for display.
type recorder struct {
	mu      sync.Mutex // guards the fields below
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

// take returns the records since the last call.
func (r *recorder) take() []verbs.TraceRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.records
	r.records = nil
	return taken
}

// record starts or stops recording, and forgets the records so far.
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
	right bool // a record of B
}

// interleave returns all records of A with the moves of B's queue pair between them:
// before each packet, the moves that B had made when it sent or got the packet.
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
			moves(at + 1) // no moves if B never saw the packet
		}
		all = append(all, step{*r, false})
	}
	moves(len(b))
	return all
}

// migrates reports whether a record is of a path migration.
func migrates(r *verbs.TraceRecord) bool {
	return r.Kind == verbs.TraceEvent && r.Event == ib.EventPathMig
}

// opposite returns the kind of the other side's record of the same packet.
func opposite(k verbs.TraceKind) (far verbs.TraceKind, isPacket bool) {
	switch k {
	case verbs.TracePacketOut:
		return verbs.TracePacketIn, true
	case verbs.TracePacketIn, verbs.TraceFault: // with TraceFault, B sent a packet that a rule of A dropped
		return verbs.TracePacketOut, true
	default:
		return k, false
	}
}

// samePacket compares base transport headers and, for packets between both QP 1, whose
// PSNs are alike, the datagrams.
func samePacket(a, b *verbs.TraceRecord) bool {
	if [roce.BTHLen]byte(a.Header[:]) != [roce.BTHLen]byte(b.Header[:]) {
		return false
	}
	m, o := a.MAD(), b.MAD()
	return m == nil || o == nil || *m == *o
}

// ladder draws the packets from a and to a, one arrow each, and the moves of both queue
// pairs, each with its meaning next to it.
func (p *printer) ladder(a, b *node, steps []step) {
	left, right := "A "+a.addr, "B "+b.addr
	gap := max(1, ladderWidth+3-utf8.RuneCountInString(left)-utf8.RuneCountInString(right))
	p.line("")
	p.line("%s%*s%s", p.paint(bold, left), gap, "", p.paint(bold, right))
	var idle silence
	for i := range steps {
		r := &steps[i]
		if d := idle.before(r); d > 0 {
			p.rung(dim, center("· · ·"), d.Round(time.Millisecond).String()+" later")
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

// sideOf returns the name of the side of a step.
func sideOf(r *step) string {
	if r.right {
		return "B"
	}
	return "A"
}

// end ends a ladder.
func (p *printer) end() { p.line("") }

// rung writes one line between the uprights and its meaning, which may take more lines.
func (p *printer) rung(st style, body, meaning string) {
	const frame = 8 // margin, uprights and the blanks next to them
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

// label returns the label of a packet: operation, sequence number, and payload or syndrome.
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

// faultLabel returns the label of an effect of a fault rule.
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

// center centers text between the uprights.
func center(s string) string {
	blank := max(0, ladderWidth-utf8.RuneCountInString(s))
	return strings.Repeat(" ", blank/2) + s + strings.Repeat(" ", blank-blank/2)
}
