// Package fabric is the border between the engine and a network: what a port
// can do, the datagrams that arrive and the batches that leave. The ports
// themselves are packages below this one.
//
// Reading order: port.go, counts.go, datagram.go, batch.go, groups.go.
//
// The package never does I/O.
package fabric
