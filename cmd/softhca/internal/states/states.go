package states

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

// Types returns the services that have a table, in the order of display.
func Types() []ib.QPType {
	return []ib.QPType{ib.RC, ib.UC, ib.UD, ib.RD, ib.EEC, ib.XRCIni, ib.XRCTgt, ib.GSI}
}

// Parse returns the service with a name such as "rc", or false if there is none.
func Parse(name string) (ib.QPType, bool) {
	for _, t := range Types() {
		if strings.EqualFold(name, t.String()) {
			return t, true
		}
	}
	return 0, false
}

func title(t ib.QPType) string {
	switch t {
	case ib.RC:
		return "RC: reliable connection"
	case ib.UC:
		return "UC: unreliable connection"
	case ib.UD:
		return "UD: unreliable datagram"
	case ib.RD:
		return "RD: reliable datagram"
	case ib.EEC:
		return "EEC: end-to-end context of reliable datagrams; its DEST_QPN is the number of an EE context"
	case ib.XRCIni:
		return "XRC_INI: initiator of an extended reliable connection, which sends"
	case ib.XRCTgt:
		return "XRC_TGT: target of an extended reliable connection, which receives"
	default:
		return t.String() + ": general services interface (QP1)"
	}
}

// Width of the columns of attributes.
const (
	requiredWidth = 36
	optionalWidth = 48
)

// Table prints the moves of the services as text of at most 101 columns.
func Table(w io.Writer, types []ib.QPType) error {
	var b strings.Builder
	b.WriteString("A modify call names STATE, all required attributes, and any of the optional ones. Any other attribute\n" +
		"is refused, and so is CAP: this adapter cannot resize queues. A refused call changes nothing.\n")
	for _, t := range types {
		fmt.Fprintf(&b, "\n%s\n\n", title(t))
		row(&b, "from", "to", "required", "optional")
		for _, r := range qp.Transitions(t) {
			if anywhere(r.To) {
				continue
			}
			required, optional := names(r.Required, requiredWidth), names(r.Optional, optionalWidth)
			for i := range max(len(required), len(optional)) {
				from, to := "", ""
				if i == 0 {
					from, to = r.From.String(), r.To.String()
				}
				row(&b, from, to, at(required, i), at(optional, i))
			}
		}
		row(&b, "any", "RESET", "-", "-")
		row(&b, "any", "ERR", "-", "-")
		fmt.Fprintf(&b, "\nThe adapter itself moves it %s.\n", automatic(t))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// names returns the attributes of a mask in lines, "-" if there are none.
func names(mask ib.AttrMask, width int) []string {
	if mask == 0 {
		return []string{"-"}
	}
	return text.Wrap(strings.Join(mask.Names(), " "), width, 0)
}

// anywhere reports whether a state is reached from every state, with no
// attribute (Q2).
func anywhere(s ib.QPState) bool { return s == ib.RESET || s == ib.ERR }

func row(b *strings.Builder, from, to, required, optional string) {
	line := fmt.Sprintf("  %-6s %-6s %-*s %s", from, to, requiredWidth, required, optional)
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// hasSQE reports whether a service ever gets to SQE (Q14).
func hasSQE(t ib.QPType) bool { return t != ib.RC && t != ib.EEC && t != ib.XRCIni && t != ib.XRCTgt }

// automatic describes the moves that the device makes by itself (Q1, Q14, Q18).
func automatic(t ib.QPType) string {
	switch t {
	case ib.RC, ib.XRCIni, ib.XRCTgt:
		return "to ERR after any error"
	case ib.EEC:
		return "to ERR when its retries are used up"
	}
	return "from RTS to SQE after a failed send, and to ERR after other errors"
}

// Move is a legal move, for programs. STATE is always given and not listed.
type Move struct {
	Type     string   `json:"type"`     // the service: RC, UC, UD, RD, EEC, XRC_INI, XRC_TGT or GSI
	From     string   `json:"from"`     // state
	To       string   `json:"to"`       // state
	Required []string `json:"required"` // attributes that the call must name
	Optional []string `json:"optional"` // attributes that it may name
}

// JSON prints every move of the services as one array of Move.
func JSON(w io.Writer, types []ib.QPType) error {
	moves := []Move{}
	for _, t := range types {
		for _, r := range qp.Transitions(t) {
			moves = append(moves, Move{
				t.String(), r.From.String(), r.To.String(),
				append([]string{}, r.Required.Names()...), append([]string{}, r.Optional.Names()...),
			})
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(moves)
}

// Dot prints a graph for Graphviz with a cluster for each service: solid edges for
// modify calls with their required attributes, dashed edges for moves by the device.
// It omits the moves to RESET and ERR, which every state has.
func Dot(w io.Writer, types []ib.QPType) error {
	var b strings.Builder
	b.WriteString("digraph qp_states {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n")
	for _, t := range types {
		fmt.Fprintf(&b, "  subgraph cluster_%v {\n    label=%q;\n", t, title(t))
		for s := ib.RESET; s <= ib.ERR; s++ {
			if !hasSQE(t) && s == ib.SQE {
				continue
			}
			fmt.Fprintf(&b, "    %v_%v [label=\"%v\"];\n", t, s, s)
		}
		for _, r := range qp.Transitions(t) {
			if !anywhere(r.To) && (hasSQE(t) || r.From != ib.SQE) {
				fmt.Fprintf(&b, "    %v_%v -> %v_%v [label=%q];\n", t, r.From, t, r.To, strings.Join(r.Required.Names(), "\n"))
			}
		}
		if hasSQE(t) {
			fmt.Fprintf(&b, "    %v_RTS -> %v_SQE [style=dashed, label=\"failed send\"];\n", t, t)
		}
		fmt.Fprintf(&b, "    %v_RTS -> %v_ERR [style=dashed, label=\"error\"];\n  }\n", t, t)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
