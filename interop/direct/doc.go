// Package direct has the cases that we play ourselves, by package verbs, with
// an adapter in the guest that does what we tell it: every operation, every
// exception, and data over networks with faults.
//
// Reading order: families.go (what there is), stage.go (our adapter and the
// guest's).
//
// What is played, and what is expected, is package conformance's.
package direct
