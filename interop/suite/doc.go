// Package suite runs cases of the interop runner: it picks them from the
// matrices of their families, runs one after the other, checks the traffic of
// each against the wire and the peer's counters, and reports the outcome.
//
// Reading order: family.go, selection.go, run.go, accepted.go.
//
// The package prints nothing: it returns results to its callers.
package suite
