// Package programs has the cases in which a program of rdma-core in the guest
// meets itself on our library, or softhca's command of that kind.
//
// Reading order: pair.go (how a pair runs), library.go.
//
// The programs check their data themselves: the package examines their exit
// codes and output.
package programs
