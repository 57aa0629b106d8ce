package main

import (
	"strings"
	"testing"
)

// TestCheckedMeasurements checks that each program under the check is compared with itself without it, over the
// same wire, and that the targets are those of small and of large messages.
func TestCheckedMeasurements(t *testing.T) {
	p := programs{softhca: "/x/softhca", seconds: 1}
	wires := map[string]int{}
	for _, m := range checkedMeasurements() {
		own, reference := p.told(&m.own, 0), p.told(&m.reference, 0)
		if own != strings.Replace(reference, "softhca run ", "softhca run --check ", 1) || own == reference {
			t.Errorf("%s: %q is compared with %q", m.name, own, reference)
		}
		wire := strings.Fields(own)[4]
		wires[wire]++
		slowest := 3.0
		if strings.Contains(m.name, "1 MiB") {
			slowest = map[string]float64{"udp": 2, "auto": 2.5}[wire]
		}
		for _, ratio := range []float64{slowest * 0.99, slowest * 1.01} {
			r := result{Ratio: spread{Median: 1 / ratio}}
			if m.unit == microseconds {
				r.Ratio.Median = ratio
			}
			if met := m.target.met(&r); met != (ratio < slowest) {
				t.Errorf("%s: %g times slower: met %v", m.name, ratio, met)
			}
		}
	}
	if wires["udp"] != wires["auto"] || wires["udp"] == 0 {
		t.Errorf("the wires are %v", wires)
	}
}
