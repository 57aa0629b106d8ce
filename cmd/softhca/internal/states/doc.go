// Package states shows the modify table of queue pairs: which moves between
// states there are, and the attributes that each requires and allows (V8).
//
// Reading order: states.go (the moves and the three formats).
//
// The package holds no table of its own: it walks the one that the adapter
// enforces.
package states
