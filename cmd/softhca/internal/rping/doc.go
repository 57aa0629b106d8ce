// Package rping has the client write to the server and back by way of RDMA, as
// rdma-core's rping does: either side may be the Linux program.
//
// In each ping the client names a buffer with a text, which the server READs;
// then the client names another one, into which the server WRITEs it back.
//
// Reading order: rping.go (Client), server.go (Server), ping.go (both parts of a
// ping), endpoint.go (what a connection is made of), step.go (what its events and
// completions do), message.go.
//
// The package opens no adapter by itself, and never trusts what a peer sends:
// it reads and writes no more than its own buffers hold.
package rping
