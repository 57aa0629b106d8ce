// Package ucmatose connects a number of RC queue pairs and has each send a
// number of messages in either direction, as rdma-core's ucmatose does: either
// side may be the Linux program, which calls itself cmatose.
//
// The server sends first, and disconnects at the end.
//
// Reading order: ucmatose.go (Side), client.go, server.go.
//
// The package opens no adapter by itself. Nobody looks at what the messages
// hold.
package ucmatose
