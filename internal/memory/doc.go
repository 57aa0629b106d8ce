// Package memory is the memory of an adapter as its queue pairs see it:
// protection domains, regions, windows and their keys, the access checks, the copies
// between packets and scatter/gather lists, and the atomic operations.
//
// Reading order: region.go (regions), table.go (registration), window.go (memory
// windows), keys.go (look-up of keys), access.go (checks and copies), fault.go
// (results of checks), missing.go (unmapped memory), atomic.go.
//
// A key leads to an entry, and an entry to a region or a memory window. A bound
// window has a part of the memory of its region, which therefore does not change.
//
// Nothing here is safe for concurrent use: only the thread that holds the shard
// calls. The bytes of a region belong to the program that registered them,
// which may access them at any time; as with hardware, the program must
// synchronise such accesses. The package never copies a region, never touches a
// byte outside one, and takes randomness only from the given source.
package memory
