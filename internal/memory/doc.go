// Package memory is the memory of an adapter as its queue pairs see it:
// protection domains, regions and their keys, the access checks, the copies
// between packets and scatter/gather lists, and the atomic operations.
//
// Reading order: region.go (what is registered), table.go (registering),
// keys.go (the keys and where they lead), access.go (checks and copies),
// fault.go (what a check can say), missing.go (memory that has gone), atomic.go.
//
// A key leads to an entry, and an entry to a region; a memory window, once
// there is one, is another kind of entry that leads to a region.
//
// Nothing here is safe for concurrent use: the owner of the shard calls. The
// bytes of a region belong to the program that registered them, which may
// touch them at any time; keeping that orderly is the program's business, as
// it is with hardware. The package never copies a region, never touches a
// byte outside one, and draws randomness only from the source it was given.
package memory
