// Package run is the common part of all simulations: the configuration, the
// random source and the result of a run. It does not run anything.
//
// Reading order: run.go, dice.go.
package run
