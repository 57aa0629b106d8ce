package states

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
)

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file  string
		print func(io.Writer, []ib.QPType) error
	}{{"testdata/states.txt", Table}, {"testdata/states.json", JSON}, {"testdata/states.dot", Dot}} {
		var out bytes.Buffer
		must.Do(t, c.print(&out, Types()))
		golden.Check(t, c.file, out.Bytes())
	}
}

func TestTableWidth(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, Table(&out, Types()))
	for line := range bytes.Lines(out.Bytes()) {
		if n := utf8.RuneCount(line) - 1; n > 101 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestJSONIsTheTable compares what is printed with what the adapter enforces.
func TestJSONIsTheTable(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, JSON(&out, Types()))
	var moves []Move
	must.Do(t, json.Unmarshal(out.Bytes(), &moves))
	i := 0
	for _, typ := range Types() {
		for _, r := range qp.Transitions(typ) {
			m := moves[i]
			i++
			if m.Type != typ.String() || m.From != r.From.String() || m.To != r.To.String() ||
				len(m.Required) != len(r.Required.Names()) || len(m.Optional) != len(r.Optional.Names()) {
				t.Errorf("printed %+v, the table has %v of %v", m, r, typ)
			}
		}
	}
	if i != len(moves) || i == 0 {
		t.Errorf("%d moves printed, the table has %d", len(moves), i)
	}
}

func TestParse(t *testing.T) {
	for _, typ := range Types() {
		if got, ok := Parse(typ.String()); !ok || got != typ {
			t.Errorf("%v: %v, %v", typ, got, ok)
		}
	}
	if got, ok := Parse("rc"); !ok || got != ib.RC {
		t.Errorf("lower case: %v, %v", got, ok)
	}
	if got, ok := Parse("xrc"); ok {
		t.Errorf("xrc is %v", got)
	}
}
