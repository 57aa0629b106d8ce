package cmstates

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/softhca/softhca/internal/cm"
)

// State is a state of the machine, of the loading of an alternate path within
// ESTABLISHED, or of a reliable datagram channel, with all its cells.
type State struct {
	Name    string
	Side    string // who can be there: active, passive or either
	Meaning string
	Cells   []cm.Row // one for each input
}

// States returns every state in the order of display.
func States() []State {
	var states []State
	add := func(r cm.Row) {
		if n := len(states); n == 0 || states[n-1].Name != r.State {
			states = append(states, State{Name: r.State, Side: r.Side, Meaning: r.Meaning})
		}
		s := &states[len(states)-1]
		s.Cells = append(s.Cells, r)
	}
	cm.Walk(add)
	cm.WalkChannels(add)
	return states
}

// Find returns the state with a name such as "req_sent", or false if there is
// none.
func Find(name string) (State, bool) {
	for _, s := range States() {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
	}
	return State{}, false
}

// Table prints the states as text of at most 100 columns.
func Table(w io.Writer, states []State) error {
	var b strings.Builder
	b.WriteString("The reaction of each state to each input: a message of the peer, a call of the consumer, or a timer.\n" +
		"Inputs that are not listed cannot occur. In addition, a REQ or REP is rejected as stale if another\n" +
		"connection has its QP or, for reliable datagrams, if another channel has its EE context.\n")
	for _, s := range states {
		fmt.Fprintf(&b, "\n%s (%s): %s\n\n", s.Name, s.Side, s.Meaning)
		for _, c := range s.Cells {
			if c.Outcome == cm.Done {
				row(&b, c)
			}
		}
		for _, o := range []cm.Outcome{cm.Dropped, cm.RefusedState, cm.RefusedAgain} {
			list(&b, o, s.Cells)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func row(b *strings.Builder, c cm.Row) {
	next, event := c.Next, c.Event
	if next == c.State {
		next = "-"
	}
	if c.Duplicate {
		event = "(a repetition)"
	}
	line := fmt.Sprintf("  %-20s %-45s %-12s %s", c.Input, c.Action, next, event)
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// list prints the inputs that have an outcome, if there are any.
func list(b *strings.Builder, o cm.Outcome, cells []cm.Row) {
	const width = 99
	line := "  " + string(o) + ":"
	found := false
	for _, c := range cells {
		if c.Outcome != o {
			continue
		}
		word := " " + c.Input + ","
		if len(line)+len(word) > width {
			b.WriteString(line + "\n")
			line = "   "
		}
		line += word
		found = true
	}
	if found {
		b.WriteString(strings.TrimSuffix(line, ",") + "\n")
	}
}

// Cell is an input in a state, for programs.
type Cell struct {
	State      string `json:"state"`                // the machine's
	Side       string `json:"side"`                 // the sides that can be in the state: active, passive or either
	Input      string `json:"input"`                // the call, message or timer
	Kind       string `json:"kind"`                 // call, message or timer; of a channel, connection
	Outcome    string `json:"outcome"`              // done, or why nothing is
	Action     string `json:"action,omitempty"`     // the action
	Next       string `json:"next,omitempty"`       // the state after it
	Event      string `json:"event,omitempty"`      // event that the consumer gets
	Repetition bool   `json:"repetition,omitempty"` // the input is a repetition of an earlier one
}

// JSON prints every cell of the states as one array of Cell.
func JSON(w io.Writer, states []State) error {
	cells := []Cell{}
	for _, s := range states {
		for _, c := range s.Cells {
			cells = append(cells, Cell{
				c.State, c.Side, c.Input, c.Kind, string(c.Outcome), c.Action, c.Next, c.Event, c.Duplicate,
			})
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(cells)
}
