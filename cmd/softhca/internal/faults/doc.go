// Package faults shows the rules of faults on demand: the catalogue of all
// that there are, and what given rules will do.
//
// faults.go is all of it. It opens no adapter.
package faults
