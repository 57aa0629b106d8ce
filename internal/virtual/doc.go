// Package virtual runs adapters in virtual time: their clock, the network
// between them with its faults, the loop of events, and the record of a run.
// Simulations, scripts and the test fixtures add programs and checks.
//
// Everything random comes from the seed, so a run can be repeated exactly.
//
// Reading order: run.go, world.go, adapter.go, network.go, faults.go, dice.go.
package virtual
