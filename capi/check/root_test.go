//go:build linux

package main

import "testing"

// The root of a suite has the packages of the core, and no compiler for programs of ours.
func TestInCore(t *testing.T) {
	for section, want := range map[string][2]bool{
		"perftest": {true, true}, "ucx-utils": {true, false}, "libucx0": {false, false}, "openmpi-bin": {false, false},
	} {
		if got := [2]bool{inCore("trixie", section), inCore("sid", section)}; got != want {
			t.Errorf("the cases of %s run in trixie and sid: %v, want %v", section, got, want)
		}
	}
}
