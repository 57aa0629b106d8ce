// Package ring holds the queues of the adapter: send, receive and completion
// queues in memory that an allocator gives, with one layout that a program in
// any language can read and write. No entry holds a pointer.
//
// Reading order: layout.go (the memory layout, byte by byte), memory.go
// (allocation), ring.go (work queues), cq.go (completion queues).
//
// Foreign writes to a queue cannot make the package access other memory: it
// keeps its own copy of the index that it moves, masks every index, and never
// uses a length from the memory to compute an address.
package ring
