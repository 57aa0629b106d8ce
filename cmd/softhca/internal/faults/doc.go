// Package faults prints the catalogue of fault rules, and explains given rules. It also prints the
// behaviours of run --nasty, which are no faults.
//
// Reading order: faults.go, nasty.go. The package opens no adapter.
package faults
