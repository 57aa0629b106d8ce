// Package conformance has the cases between two adapters, one of them a peer's:
// every operation, every exception, and data over a network with faults.
// Expectations are tables; a row states where a peer may differ, or where we
// differ on purpose, and why.
//
// Reading order: result.go, stand.go (two ends, connected), steps.go (what a case does with them),
// layout.go (where the bytes of a message lie), operation.go and operations.go (one message, and
// the list), sequence.go (several messages that belong together), exception.go, exceptions.go (the
// table), provoke.go (plays it), misplaced.go, windows.go and
// extensions.go (operations that not every peer has), migration.go, forged.go, lane.go (many messages in
// one direction), stream.go (data with faults), soak.go (many messages with faults).
//
// It opens no adapter and is independent of guests: its callers provide two
// ends.
package conformance
