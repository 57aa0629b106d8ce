// Package cpeer is a program in C at the other side of the queues, for tests:
// it gives memory from outside Go's heap, reads completion queues and writes
// work queues by threads that never enter Go. It knows the layout from a
// declaration in C, not from package ring: from ring.h, by which libibverbs of
// capi has it too.
//
// Reading order: ring.h (the layout as C declares it), peer.h, peer.c (the
// threads), memory.go, reader.go, producer.go, flicker.go (a writer of one word).
// Without cgo the package is empty.
package cpeer
