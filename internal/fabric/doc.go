// Package fabric is the interface between the engine and a network: ports and
// their capabilities, received datagrams and batches to send. The
// implementations of ports are packages below this one.
//
// Reading order: port.go, counts.go, datagram.go, batch.go, groups.go, backlog.go.
//
// The package never does I/O.
package fabric
