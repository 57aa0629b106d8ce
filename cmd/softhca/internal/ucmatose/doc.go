// Package ucmatose connects a number of RC queue pairs and sends a number of messages
// on each in both directions, as rdma-core's ucmatose does: either side may be the
// Linux program, which calls itself cmatose.
//
// The server sends first, and disconnects at the end.
//
// Reading order: ucmatose.go (Side), client.go, server.go.
//
// The package opens no adapter by itself, and does not check the content of the
// messages.
package ucmatose
