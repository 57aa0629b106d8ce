package qp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
)

// TestQ24_Golden prints every (state, queue, direction) cell and compares it
// with the reviewed file.
func TestQ24_Golden(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What a queue pair does in each state.\n\n")
	row := func(cells ...any) { fmt.Fprintf(&b, "%-6v %-9v %-9v %-9v %-10v %v\n", cells...) }
	row("state", "post_recv", "post_send", "requests", "responses", "requester sends")
	taken := map[bool]string{true: "taken", false: "dropped"}
	for _, s := range allStates[:ib.NumQPStates] {
		r := behaviourOf(s)
		row(s, r.postRecv, r.postSend, taken[r.takesRequests()], taken[r.takesResponses()], r.requester)
	}
	golden.Check(t, "testdata/behaviour.golden", b.String())
}

// TestQ24_EveryState checks each state's rules against the requirement that
// defines them.
func TestQ24_EveryState(t *testing.T) {
	for _, c := range []struct {
		state      ib.QPState
		rule       string
		recv, send posting
		sends      bool // any packet leaves
	}{
		{ib.RESET, "Q4", postRefuse, postRefuse, false},
		{ib.INIT, "Q6", postQueue, postRefuse, false},
		{ib.RTR, "Q7", postProcess, postRefuse, true},
		{ib.RTS, "Q8", postProcess, postProcess, true},
		{ib.SQD, "Q11", postProcess, postQueue, true},
		{ib.SQE, "Q15", postProcess, postFlush, true},
		{ib.ERR, "Q20", postFlush, postFlush, false},
	} {
		r := behaviourOf(c.state)
		if r.postRecv != c.recv || r.postSend != c.send || r.sends() != c.sends {
			t.Errorf("%s, %v: receives %v, sends %v, transmits %v", c.rule, c.state, r.postRecv, r.postSend, r.sends())
		}
	}
}

// TestQ24_Consistent checks rules that hold in every state.
func TestQ24_Consistent(t *testing.T) {
	for _, s := range allStates[:ib.NumQPStates] {
		r := behaviourOf(s)
		if r.takesRequests() != (r.postRecv == postProcess) {
			t.Errorf("%v: requests are served exactly where receives are processed", s)
		}
		if (r.requester == sendAll) != (r.postSend == postProcess) {
			t.Errorf("%v: new requests go out exactly where sends are processed", s)
		}
		if r.takesResponses() != (r.requester != sendNothing) {
			t.Errorf("%v: responses are taken exactly where requests are out", s)
		}
	}
}

func TestQ24_Names(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		postRefuse: "refuse", postFlush: "flush", posting(9): "posting(9)",
		sendBegun: "begun", sending(9): "sending(9)",
	} {
		if got.String() != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}
