// Package direct has the cases that we play ourselves, through package verbs,
// with an adapter in the guest that the test agent drives: every operation,
// every exception, and data over networks with faults.
//
// Reading order: families.go (the cases), stage.go (our adapter and the guest's),
// migration.go, judge.go (protocol scripts, whose packets softhca judge plays).
//
// The operations and their expected outcome come from package conformance; for
// scripts, the expected outcome is the report in docs/peers on that kernel.
package direct
