// Package demo shows two adapters at work, and explains it to a newcomer: how
// they connect, every operation with its packets, an error and what becomes of
// it, counters, throughput, and how they part. Everything shown happened, and
// every result is verified.
//
// Reading order: demo.go (the scenes), node.go (one adapter), connect.go,
// operations.go, throughput.go (the scenes), migration.go (another
// play, of a path that is lost), datagrams.go (another, of a channel that queue
// pairs share), ladder.go and explain.go (from trace
// records to arrows), printer.go.
//
// The package opens no adapter: its caller does.
package demo
