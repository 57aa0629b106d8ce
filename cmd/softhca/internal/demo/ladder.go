package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/softhca/softhca/cmd/softhca/internal/headers"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
	"github.com/softhca/softhca/verbs"
)

// ladderWidth is the columns between the two uprights of a ladder.
const ladderWidth = 47

// ladder draws the packets that left a and came to it: an arrow each, with
// what it means beside it.
func (p *printer) ladder(a, b *node, records []verbs.TraceRecord) {
	left, right := "A "+a.addr, "B "+b.addr
	gap := max(1, ladderWidth+3-utf8.RuneCountInString(left)-utf8.RuneCountInString(right))
	p.line("")
	p.line("%s%*s%s", p.paint(bold, left), gap, "", p.paint(bold, right))
	for i := range records {
		switch r := &records[i]; r.Kind {
		case trace.PacketOut, trace.PacketIn:
			p.arrow(r)
		case trace.Retry:
			p.line(" │%s│  %s", center("sends again from psn "+r.PSN.String()), r.Cause)
		case trace.Drop:
			p.line(" │%s│  %s", center("drops psn "+r.PSN.String()), r.Cause)
		}
	}
	p.line("")
}

// arrow draws one packet.
func (p *printer) arrow(r *verbs.TraceRecord) {
	pkt, fault := headers.Parse(r.Header[:])
	if fault != roce.FaultNone {
		p.line(" │%s│", center("unreadable: "+fault.String()))
		return
	}
	n := r.Len - int(pkt.Info.HeaderLen) - int(pkt.BTH.PadCnt) - roce.ICRCLen
	label := label(&pkt, n)
	// A dash and an arrow head, and a blank on each side of the label.
	line := strings.Repeat("─", max(0, ladderWidth-4-utf8.RuneCountInString(label)))
	st := cyan
	if pkt.Info.Headers&roce.HasAETH != 0 && !pkt.AETH.Syndrome.IsACK() {
		st = red
	}
	body := "─ " + label + " " + line + "▶"
	if r.Kind == trace.PacketIn {
		body = "◀" + line + " " + label + " ─"
	}
	p.line(" │%s│  %s", p.paint(st, body), explain(&pkt, n))
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

// center puts text in the middle between the uprights.
func center(s string) string {
	blank := max(0, ladderWidth-utf8.RuneCountInString(s))
	return strings.Repeat(" ", blank/2) + s + strings.Repeat(" ", blank-blank/2)
}
