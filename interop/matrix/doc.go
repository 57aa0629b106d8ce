// Package matrix spans the cases of the interop runner: dimensions with their
// values, the cells that they make, and a small set of cells in which any two
// values of different dimensions meet.
//
// Reading order: cell.go, pairs.go.
//
// The package knows nothing of what a cell is for, and runs nothing.
package matrix
