// Package direct has the cases that we play ourselves, by package verbs, with
// an adapter in the guest that does what we tell it: every operation, every
// exception, and data over networks with faults.
//
// Reading order: families.go (what there is), stage.go (our adapter and the
// guest's), migration.go, judge.go (protocol scripts, whose packets softhca judge plays).
//
// What is played, and what is expected, is package conformance's; of the
// scripts, what the reports in docs/peers say of that kernel.
package direct
