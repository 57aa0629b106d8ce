// Package run is what all simulations have in common: what one run is asked for,
// and what it came to. It makes none.
package run
