// Package gsi is the general services interface: QP1 of an adapter, through
// which management datagrams (MADs) travel (C1, C12). It is no queue pair of
// the verbs: it has no work requests, no completions and no memory regions. A
// MAD that arrives goes to its agent at once; one that an agent sends waits in
// a bounded queue until Transmit takes it.
//
// Reading order: address.go (where a MAD goes), gsi.go (the interface, the
// calls of the engine and the counters), agent.go (who takes which MADs), transaction.go with
// table.go (requests that wait for an answer), receive.go (the way in),
// answer.go (what the interface answers by itself), queue.go and transmit.go
// (the way out).
//
// The package does no I/O and reads no clock. It knows classes and methods, but
// nothing of what the attributes of a class mean. Every call, and every
// function that the interface calls, runs on the thread that holds the shard.
package gsi
