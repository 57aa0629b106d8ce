package rping

import "testing"

// TestC11_RpingTurns lists what a message means in each state of each role.
func TestC11_RpingTurns(t *testing.T) {
	want := map[string]map[state]state{
		server: {
			idle: readAdv, connectRequest: readAdv, addrResolved: readAdv, routeResolved: readAdv, connected: readAdv,
			readComplete: writeAdv, writeComplete: readAdv,
		},
		client: {readAdv: writeAdv, writeAdv: writeComplete},
	}
	for role, turns := range want {
		for s := idle; s <= failed; s++ {
			e := endpoint{role: role, state: s}
			got, ok := e.turn()
			if next, allowed := turns[s]; ok != allowed || got != next {
				t.Errorf("%s in %v: %d, %t, want %d, %t", role, s, got, ok, next, allowed)
			}
		}
	}
}
