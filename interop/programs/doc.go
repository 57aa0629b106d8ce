// Package programs has the cases in which a program of rdma-core in the guest
// and the same of ours meet, or the same itself on our library.
//
// Reading order: pair.go (how a pair runs), pingpong.go, library.go.
//
// What the programs themselves check, they check: the package looks at how
// they end and at what they say.
package programs
