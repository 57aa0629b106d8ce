// Package cmtime measures how long it takes to make and end connections, step
// by step, as rdma-core's cmtime does, with its output: either side may be the
// Linux program.
//
// Within one process it also runs whole lives of connections one after the other,
// checks that they leave nothing behind, and for comparison measures the same number
// of messages without RDMA.
//
// Reading order: cmtime.go (Client, Server), phase.go and client.go (all
// connections at once, a step at a time), server.go, waiter.go (how both wait),
// local.go (both in one process) with cycle.go (lives of connections), leak.go,
// raw.go (messages without RDMA), summary.go (times and results).
//
// The package opens no adapter by itself.
package cmtime
