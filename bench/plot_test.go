package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestLossPlot draws what two measurements of a line and one over a path found.
func TestLossPlot(t *testing.T) {
	list := []measurement{
		{name: "a", loss: loss{line: "WRITE", share: 0.01}},
		{name: "b", loss: loss{line: "WRITE", share: 0.001}},
		{name: "c", loss: loss{line: "path", other: "TCP <&>", share: 0.01}},
		{name: "d", loss: loss{line: "path", other: "TCP <&>", share: 0.05}},
		{name: "e"},
	}
	r := report{Machine: machine{CPU: "A <CPU>"}, Results: []result{
		{Name: "a", Baseline: spread{20, 19, 21}, Softhca: spread{10, 9, 11}},
		{Name: "b", Baseline: spread{22, 21, 23}, Softhca: spread{15, 15, 15}},
		{Name: "c", Baseline: spread{4, 3, 5}, Softhca: spread{5, 5, 5}},
		{Name: "d", Skipped: "needs a moon"},
		{Name: "e", Softhca: spread{99, 99, 99}},
	}}
	p, ok := r.lossPlot(list)
	if !ok || len(p.lines) != 3 || len(p.lines[0].points) != 3 || len(p.lines[1].points) != 1 || p.lines[2].name != "TCP <&>" {
		t.Fatalf("the figure has the lines %+v", p.lines)
	}
	for i, share := range []float64{0, 0.001, 0.01} {
		if got := p.lines[0].points[i].share; got != share {
			t.Errorf("point %d is at %g, want %g", i, got, share)
		}
	}
	var svg strings.Builder
	must.Do(t, p.write(&svg))
	d := xml.NewDecoder(strings.NewReader(svg.String()))
	count := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the figure is no XML: %v\n%s", err, svg.String())
		}
		if s, ok := token.(xml.StartElement); ok {
			count[s.Name.Local]++
		}
	}
	if count["svg"] != 1 || count["polyline"] != 3 || count["circle"] != 5 {
		t.Errorf("the figure has %v, want 3 lines with 5 points", count)
	}
	for _, part := range []string{"WRITE", "TCP &lt;&amp;&gt;", "A &lt;CPU&gt;", ">0.1 %<", "Gb/s"} {
		if !strings.Contains(svg.String(), part) {
			t.Errorf("the figure does not say %s:\n%s", part, svg.String())
		}
	}
	if _, ok := (&report{Results: r.Results[3:]}).lossPlot(list); ok {
		t.Error("there is a figure of nothing")
	}
}

func TestNiceStep(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 0.9: 0.2, 1: 0.2, 4.2: 1, 10: 2, 24: 5, 38: 10, 99: 20} {
		if got := niceStep(most); got < want*0.999 || got > want*1.001 {
			t.Errorf("up to %g in steps of %g, want %g", most, got, want)
		}
	}
}
