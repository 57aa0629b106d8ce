// Package simple sends one message from a client to a server and one back, as
// rdma-core's rdma_client and rdma_server do: either side may be the Linux
// program.
//
// Reading order: simple.go (Client, Server), endpoint.go (the common part),
// report.go (the lines that the programs print).
//
// The package opens no adapter by itself, and does not check the content of the
// messages.
package simple
