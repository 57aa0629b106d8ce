// Package simple sends one message from a client to a server and one back, as
// rdma-core's rdma_client and rdma_server do: either side may be the Linux
// program.
//
// Reading order: simple.go (Client, Server), endpoint.go (what both have),
// report.go (the lines that the programs print).
//
// The package opens no adapter by itself, and never looks at what the messages
// hold.
package simple
