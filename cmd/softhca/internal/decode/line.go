package decode

import (
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// style says whether text is colored.
type style bool

const (
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	plain  = "\x1b[0m"
)

// in returns s in a color, if there are any.
func (st style) in(color, s string) string {
	if !st {
		return s
	}
	return color + s + plain
}

// line returns the packet as a line of text: its record, time and addresses, the
// operation, the BTH, the extended headers, the MAD, the payload and the ICRC check. It
// omits fields with their usual value.
func (p *Packet) line(sinceFirst time.Duration, st style) string {
	var b strings.Builder
	b.WriteString(st.in(faint, fmt.Sprintf("%5d %11.6f", p.Record, sinceFirst.Seconds())))
	fmt.Fprintf(&b, "  %v:%d > %v", p.Src, p.SrcPort, p.Dst)
	if p.TClass != 0 {
		fmt.Fprintf(&b, " tclass %#02x", p.TClass)
	}
	if p.BTH != nil {
		p.BTH.text(&b, st)
		p.extensions(&b, st)
	}
	switch {
	case p.Malformed != "":
		fmt.Fprintf(&b, "  %d bytes  %s", p.Length, st.in(red, "MALFORMED: "+p.Malformed))
	case p.ICRCOK:
		fmt.Fprintf(&b, "  payload %d  %s", p.Payload, st.in(faint, "icrc ok"))
	default:
		fmt.Fprintf(&b, "  payload %d  %s", p.Payload, st.in(red, fmt.Sprintf("icrc %08x BAD", *p.ICRC)))
	}
	return b.String()
}

func (h *BTH) text(b *strings.Builder, st style) {
	fmt.Fprintf(b, "  %s qp %#06x psn %#06x", st.in(bold, fmt.Sprintf("%-26s", h.Name)), h.DestQPN, h.PSN)
	for _, flag := range [...]struct {
		set  bool
		name string
	}{{h.AckReq, "ack_req"}, {h.SE, "se"}, {h.MigReq, "migreq"}, {h.FECN, "fecn"}, {h.BECN, "becn"}} {
		if flag.set {
			b.WriteString(" " + flag.name)
		}
	}
	if h.Pad != 0 {
		fmt.Fprintf(b, " pad %d", h.Pad)
	}
	if h.TVer != 0 {
		fmt.Fprintf(b, " tver %d", h.TVer)
	}
	if h.PKey != uint16(ib.PKeyDefault) {
		fmt.Fprintf(b, " pkey %#04x", h.PKey)
	}
}

func (p *Packet) extensions(b *strings.Builder, st style) {
	if h := p.RDETH; h != nil {
		fmt.Fprintf(b, "  eec %#06x", h.EEC)
	}
	if h := p.DETH; h != nil {
		fmt.Fprintf(b, "  src_qp %#06x qkey %#08x", h.SrcQPN, h.QKey)
	}
	if h := p.XRCETH; h != nil {
		fmt.Fprintf(b, "  srqn %#06x", h.SRQN)
	}
	if h := p.FETH; h != nil {
		b.WriteString("  " + h.text())
	}
	if h := p.RETH; h != nil {
		fmt.Fprintf(b, "  va %#x rkey %#08x len %d", h.VA, h.RKey, h.Length)
	}
	if h := p.Atomic; h != nil {
		fmt.Fprintf(b, "  va %#x rkey %#08x swap_add %#x compare %#x", h.VA, h.RKey, h.SwapAdd, h.Compare)
	}
	if h := p.AETH; h != nil {
		color := green
		if !roce.Syndrome(h.Syndrome).IsACK() {
			color = yellow
		}
		fmt.Fprintf(b, "  %s msn %d", st.in(color, h.Name), h.MSN)
	}
	if p.AtomicAck != nil {
		fmt.Fprintf(b, " original %#x", *p.AtomicAck)
	}
	if p.Imm != nil {
		fmt.Fprintf(b, "  imm %#08x", *p.Imm)
	}
	if p.InvRKey != nil {
		fmt.Fprintf(b, "  inv_rkey %#08x", *p.InvRKey)
	}
	if p.MAD != nil {
		b.WriteString("  " + st.in(cyan, p.MAD.text))
	}
}

// text names the type and the extent of a FLUSH. Values without a name are printed as numbers.
func (h *FETH) text() string {
	var types []string
	if h.Placement&roce.PlacementGlobal != 0 {
		types = append(types, "global")
	}
	if h.Placement&roce.PlacementPersistence != 0 {
		types = append(types, "persistent")
	}
	if left := h.Placement &^ (roce.PlacementGlobal | roce.PlacementPersistence); left != 0 || len(types) == 0 {
		types = append(types, fmt.Sprintf("%#x", left))
	}
	extent := fmt.Sprintf("selectivity %d", h.Selectivity)
	switch h.Selectivity {
	case roce.SelectRange:
		extent = "range"
	case roce.SelectRegion:
		extent = "region"
	}
	return "flush " + strings.Join(types, "|") + " " + extent
}
