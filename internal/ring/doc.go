// Package ring holds the queues of the adapter: send, receive and completion
// queues in memory that an allocator gives, with one layout that a program in
// any language can read and write. No entry holds a pointer.
//
// Reading order: layout.go (what the memory looks like, byte by byte),
// memory.go (where it comes from), ring.go (work queues), cq.go (completion
// queues).
//
// What somebody else writes into a queue never misleads the package: it keeps
// its own copy of the index that it moves, masks every index, and never reads
// a length from the memory to find a place in it.
package ring
