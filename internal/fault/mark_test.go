package fault

import (
	"slices"
	"testing"
)

// TestMarkSaysHowManyComeBefore loses packets within arriving runs: each mark
// has the number of packets that Receive must still return before it.
func TestMarkSaysHowManyComeBefore(t *testing.T) {
	x := newBench(t, "drop nth=2 every=3 dir=in", false)
	var before []int
	x.port.cfg.Mark = func(m *Mark) { before = append(before, m.Before) }
	x.in(4) // 0 to 3: 1 is lost
	x.in(5) // 4 to 8: 4 and 7 are
	if got := x.arrived(x.port); got != "0 2 3 5 6 8" {
		t.Errorf("arrived are %s", got)
	}
	if want := []int{1, 3, 5}; !slices.Equal(before, want) {
		t.Errorf("%v come before, not %v", before, want)
	}
}
