// Package lab is what a case of the interop runner works with: a guest with
// Linux's RDMA stack, our command, the network between them and what was seen
// on it.
//
// Reading order: lab.go, process.go, library.go (programs in C on our library),
// counters.go (what both sides counted), own.go (what ours did).
//
// The package judges nothing.
package lab
