// Package restrack is the resource tracking of an adapter: a table of its queue pairs, completion
// queues, regions, connections and other objects, with their counters. The table is in memory that
// other processes can map, so that tools see what an adapter does while it runs, and what it did
// last if it died. The engine only writes to the table and never reads it back, so readers, and
// wrong contents, cannot disturb the adapter. Only truncating the file can: an access to memory that
// the file no longer has ends the process. Its user, and root, could as well kill the process.
//
// Each row has one writer at a time. Identities (numbers, addresses, sizes) change rarely, under a
// sequence lock of atomic words; counters are single words that their writer stores directly, so a
// counter costs one addition and no copy.
//
// Reading order: layout.go (the header and extents), row.go (the sequence lock), objects.go (the
// columns of each kind), table.go (the writer's side), reader.go.
//
// The package does no I/O: internal/restrack/file puts a table into a file, and finds the tables
// of other processes.
package restrack
