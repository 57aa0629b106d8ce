// Package rping pings a server by RDMA READ and WRITE, as rdma-core's rping does:
// either side may be the Linux program.
//
// In each ping the client names a buffer with a text, which the server READs; then
// the client names another buffer, into which the server WRITEs the text back.
//
// Reading order: rping.go (Client), server.go (Server), ping.go (both sides of a
// ping), endpoint.go (the objects of a connection), step.go (its events and
// completions), message.go.
//
// The package opens no adapter by itself, and never trusts a peer: it reads and
// writes no more than its own buffers hold.
package rping
