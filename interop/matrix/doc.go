// Package matrix makes the cases of the interop runner: dimensions with their
// values, the cells that they make, and a small set of cells in which any two
// values of different dimensions meet.
//
// Reading order: cell.go, pairs.go.
//
// The package does not know the meaning of a cell, and runs nothing.
package matrix
