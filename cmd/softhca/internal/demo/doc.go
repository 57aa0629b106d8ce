// Package demo shows two adapters at work, and explains it to a newcomer: how they
// connect, every operation with its packets, an error and its effect, counters,
// throughput, and how they disconnect. Everything shown happens, and every result is
// verified.
//
// Reading order: demo.go (the scenes), node.go (one adapter), connect.go,
// operations.go, throughput.go (the scenes), migration.go (a demonstration of path
// migration), datagrams.go (a demonstration of reliable datagrams), ladder.go and
// explain.go (from trace records to arrows), printer.go.
//
// The package opens no adapter: its caller does.
package demo
