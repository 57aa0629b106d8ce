package cmstates

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
)

func TestC6_Golden(t *testing.T) {
	for _, c := range []struct {
		file  string
		print func(io.Writer, []State) error
	}{{"testdata/cmstates.txt", Table}, {"testdata/cmstates.json", JSON}, {"testdata/cmstates.dot", Dot}} {
		var out bytes.Buffer
		must.Do(t, c.print(&out, States()))
		golden.Check(t, c.file, out.Bytes())
	}
}

func TestTableWidth(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, Table(&out, States()))
	for line := range bytes.Lines(out.Bytes()) {
		if n := utf8.RuneCount(line) - 1; n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestJSONIsTheMachine compares what is printed with what the adapter executes.
func TestJSONIsTheMachine(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, JSON(&out, States()))
	var cells []Cell
	must.Do(t, json.Unmarshal(out.Bytes(), &cells))
	i := 0
	same := func(r cm.Row) {
		if i < len(cells) {
			c := cells[i]
			if c.State != r.State || c.Input != r.Input || c.Outcome != string(r.Outcome) || c.Next != r.Next || c.Event != r.Event || c.Repetition != r.Duplicate {
				t.Errorf("printed %+v, the machine has %+v", c, r)
			}
		}
		i++
	}
	cm.Walk(same)
	cm.WalkChannels(same)
	if i != len(cells) || i == 0 {
		t.Errorf("%d cells printed, the machine has %d", len(cells), i)
	}
}

// TestDotHasEveryMove: an arrow leads along each move of a connection, and
// every node that an arrow names belongs to the graph.
func TestDotHasEveryMove(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, Dot(&out, States()))
	arrows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if from, rest, ok := strings.Cut(strings.TrimSpace(line), " -> "); ok {
			to, label, _ := strings.Cut(rest, " [")
			arrows[from+" "+to] = label
			for _, n := range []string{from, to} {
				if !strings.Contains(out.String(), n+" [label=") {
					t.Errorf("an arrow leads to or from %s, which is no node", n)
				}
			}
		}
	}
	leads := func(r cm.Row) {
		if r.Outcome != cm.Done || r.Next == r.State {
			return
		}
		found := false
		for nodes, label := range arrows {
			from, to, _ := strings.Cut(nodes, " ")
			found = found || (from == r.State || from == "start" && r.State == "IDLE") &&
				(to == r.Next || strings.HasPrefix(to, "over_") && r.Next == "IDLE") && strings.Contains(label, r.Input)
		}
		if !found {
			t.Errorf("no arrow for %s in %s", r.Input, r.State)
		}
	}
	cm.Walk(leads)
	cm.WalkChannels(leads)
}

func TestFind(t *testing.T) {
	for _, s := range States() {
		if got, ok := Find(strings.ToLower(s.Name)); !ok || got.Name != s.Name || len(got.Cells) != len(s.Cells) {
			t.Errorf("%s: %+v, %v", s.Name, got.Name, ok)
		}
	}
	if s, ok := Find("CONNECTED"); ok {
		t.Errorf("CONNECTED is %s", s.Name)
	}
}
