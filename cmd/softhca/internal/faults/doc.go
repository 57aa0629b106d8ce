// Package faults prints the catalogue of fault rules, and explains given rules.
//
// faults.go is all of it. It opens no adapter.
package faults
