// Package connections measures how long it takes to make and end connections, step
// by step.
//
// Within one process it also runs whole lives of connections one after the other,
// checks that they leave nothing behind, and for comparison measures the same number
// of messages without RDMA.
//
// Reading order: connections.go (Client, Server), phase.go and client.go (all
// connections at once, a step at a time), server.go, waiter.go (how both wait),
// local.go (both in one process) with cycle.go (lives of connections), leak.go,
// raw.go (messages without RDMA), summary.go (times and results).
//
// The package opens no adapter by itself.
package connections
