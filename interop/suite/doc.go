// Package suite runs cases of the interop runner: it picks them from the
// matrices of their families, runs one after the other, holds the traffic of
// each to what the wire and the peer's kernel say, and tells the outcome.
//
// Reading order: family.go, selection.go, run.go, accepted.go.
//
// The package prints nothing: whoever calls it is told as things happen.
package suite
