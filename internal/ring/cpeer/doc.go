// Package cpeer is a program in C at the other side of the queues, for tests:
// it gives memory from outside Go's heap, reads completion queues and writes
// work queues by threads that never enter Go. It knows the layout from a
// declaration of its own, not from package ring.
//
// Reading order: peer.h (the layout as C declares it), peer.c (the threads),
// memory.go, reader.go, producer.go, flicker.go (a writer of one word). Without cgo the package is empty.
package cpeer
