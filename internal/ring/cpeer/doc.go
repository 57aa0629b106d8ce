// Package cpeer is C code at the other side of the queues, for tests: it
// allocates memory outside Go's heap, and reads completion queues and writes
// work queues in threads that never enter Go. It takes the layout from ring.h,
// as capi's libibverbs does, not from package ring.
//
// Reading order: ring.h (the layout as C declares it), peer.h, peer.c (the
// threads), memory.go, reader.go, producer.go, flicker.go (a writer of one word).
// Without cgo the package is empty.
package cpeer
