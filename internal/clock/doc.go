// Package clock is the engine's notion of time: instants that callers pass in.
// Nothing here reads a clock.
package clock
