package cmstates

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/cm"
)

// cluster is a part of the graph that is drawn together.
type cluster struct {
	id, label string
	has       func(s *State) bool
}

// clusters are the parts in the order of display. UNKNOWN, which no connection
// is in, has none.
var clusters = []cluster{
	{"active", "Active side: set-up", func(s *State) bool { return s.Side == "active" && !isSIDR(s) && !isLAP(s) }},
	{"passive", "Passive side: set-up", func(s *State) bool { return s.Side == "passive" && !isSIDR(s) && !isLAP(s) }},
	{"end", "Either side: connected, and tear-down", func(s *State) bool {
		return s.Side == "either" && !isLAP(s) && !isChannel(s) && s.Name != cm.Idle.String() && s.Name != cm.Unknown.String()
	}},
	{"sidr", "Resolution of a service", isSIDR},
	{"lap", "Alternate path, within ESTABLISHED", isLAP},
	{"channel", "Reliable datagram channel", isChannel},
}

func isSIDR(s *State) bool { return strings.HasPrefix(s.Name, "SIDR") }
func isLAP(s *State) bool  { return strings.HasPrefix(s.Name, "LAP") }

func isChannel(s *State) bool { return strings.HasPrefix(s.Name, "CHANNEL") }

// edge is a move between two nodes, with the inputs that cause it.
type edge struct {
	from, to string
	labels   []string
	called   bool // only by calls
}

// Dot prints a graph for Graphviz: the moves out of the states, blue if only calls
// cause them, solid if messages or timers do too. It omits repetitions and other
// inputs that do not change the state.
func Dot(w io.Writer, states []State) error {
	var b strings.Builder
	b.WriteString("digraph cm_states {\n  rankdir=TB;\n  node [shape=box, style=rounded];\n" +
		"  edge [fontsize=10];\n  start [label=\"IDLE\"];\n")
	for i := range clusters {
		c := &clusters[i]
		if !slices.ContainsFunc(states, func(s State) bool { return c.has(&s) }) {
			continue
		}
		fmt.Fprintf(&b, "  subgraph cluster_%s {\n    label=%q;\n", c.id, c.label)
		for _, s := range states {
			if c.has(&s) {
				fmt.Fprintf(&b, "    %s [label=%q];\n", s.Name, s.Name)
			}
		}
		if c.id != "lap" && c.id != "channel" {
			fmt.Fprintf(&b, "    over_%s [label=\"IDLE\"];\n", c.id)
		}
		b.WriteString("  }\n")
	}
	for _, e := range edges(states) {
		style := ""
		if e.called {
			style = ", color=blue, fontcolor=blue"
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%q%s];\n", e.from, e.to, strings.Join(e.labels, "\n"), style)
	}
	if slices.ContainsFunc(states, func(s State) bool { return s.Name == cm.Listen.String() }) {
		// A listener keeps its state and creates a connection.
		fmt.Fprintf(&b, "  %v -> %v [style=dashed, label=\"REQ\"];\n", cm.Listen, cm.ReqRcvd)
		fmt.Fprintf(&b, "  %v -> %v [style=dashed, label=\"SIDR_REQ\"];\n", cm.Listen, cm.SIDRReqRcvd)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// edges returns the moves between the states, in their order.
func edges(states []State) []edge {
	var all []edge
	for i := range states {
		s := &states[i]
		for _, c := range s.Cells {
			if c.Outcome != cm.Done || c.Next == c.State {
				continue
			}
			from, to := s.Name, c.Next
			if from == cm.Idle.String() {
				from = "start"
			}
			if to == cm.Idle.String() {
				to = "over_" + clusterOf(s)
			}
			at := slices.IndexFunc(all, func(e edge) bool { return e.from == from && e.to == to })
			if at < 0 {
				at = len(all)
				all = append(all, edge{from: from, to: to, called: true})
			}
			all[at].labels = append(all[at].labels, c.Input)
			all[at].called = all[at].called && c.Kind == "call"
		}
	}
	return all
}

func clusterOf(s *State) string {
	for i := range clusters {
		if clusters[i].has(s) {
			return clusters[i].id
		}
	}
	return "none"
}
