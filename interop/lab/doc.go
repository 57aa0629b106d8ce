// Package lab is the environment of an interop case: a guest with Linux's RDMA
// stack, our command, the network between them and the packets captured on it.
//
// Reading order: lab.go, process.go, library.go (programs in C on our library),
// counters.go (the counters of both sides), own.go (those of our adapters).
//
// The package judges nothing.
package lab
