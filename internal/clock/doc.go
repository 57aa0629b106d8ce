// Package clock is the engine's notion of time: instants that are handed to
// it. Nothing in it reads a clock.
package clock
