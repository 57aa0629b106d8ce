// Package states shows the modify table of queue pairs: the moves between states,
// and the attributes that each move requires and allows (V8).
//
// Reading order: states.go (the moves and the three formats).
//
// The package has no table of its own: it reads the one that the adapter enforces.
package states
