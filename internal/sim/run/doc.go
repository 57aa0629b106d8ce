// Package run is what all simulations have in common: what one run is asked for,
// what it chooses by, and what it came to. It makes none.
//
// Reading order: run.go, dice.go.
package run
