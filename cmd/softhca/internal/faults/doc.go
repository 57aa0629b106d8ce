// Package faults shows the rules of faults on demand: the catalogue of all
// that there are, and what given rules will do.
//
// Reading order: list.go, explain.go. It opens no adapter.
package faults
