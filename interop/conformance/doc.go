// Package conformance has the cases that two adapters play with each other, one
// of them a peer's: every operation, every exception, and data over a network
// with faults. What is expected is data; where a peer may do otherwise, or we
// mean to, the row says so and why.
//
// Reading order: result.go, stand.go (two ends, connected), layout.go (where the
// bytes of a message lie), operation.go and operations.go (one message, and the
// list), sequence.go (several that belong together), exception.go, exceptions.go
// (the table), provoke.go (what plays it), misplaced.go, migration.go, lane.go (many messages in one
// direction), stream.go (data with faults), soak.go (the same for long).
//
// It opens no adapter and knows nothing of guests: it gets two ends.
package conformance
