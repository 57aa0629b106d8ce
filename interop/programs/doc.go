// Package programs has the cases of a program of rdma-core in the guest with
// our program of the same name, or with itself on our library.
//
// Reading order: pair.go (how a pair runs), pingpong.go, library.go.
//
// The programs check their data themselves: the package examines their exit
// codes and output.
package programs
