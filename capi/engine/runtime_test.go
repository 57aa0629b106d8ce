//go:build linux && cgo

package main

import "testing"

// TestProcessors shows how many processors the runtime gets.
func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		n      int
		chosen string
		want   int
	}{
		{1, "", 1}, {2, "", leastProcessors}, {3, "", 12}, {4, "", 16}, {16, "", 32}, {64, "", 64},
		{2, "2", 2}, {1, "1", 1}, {8, "8", 8},
	} {
		if got := processors(c.n, c.chosen); got != c.want {
			t.Errorf("of %d processors and GOMAXPROCS=%q: %d, want %d", c.n, c.chosen, got, c.want)
		}
	}
}
