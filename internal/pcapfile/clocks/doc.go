// Package clocks finds how the clocks of captures of several places differ, from packets that are in two of
// them: the smallest apparent delays in both directions, as NTP does.
//
// Reading order: sample.go (the packets of a capture that are compared), match.go (packets in two captures,
// and which capture has their sender), estimate.go (from matches to the difference of two clocks), curve.go
// (a difference that changes with time), compare.go (more than two captures).
//
// The package never corrects a clock that agrees with the other within the error, and needs memory for a
// bounded number of packets per capture.
package clocks
