// Package pipe is a network inside the process: ports that exchange runs of
// segments through bounded queues. It replaces a network in examples, in tests
// and in the browser. It works on every system, js/wasm included.
//
// Reading order: network.go (addresses and delivery), queue.go (received runs),
// port.go (the fabric.Port).
//
// A run arrives as one datagram with a stride, as it would from a kernel with
// segmentation offload at both ends, and with its IPv4 identification, so the
// whole ICRC can be checked. A run that finds its receiver's queue full is
// dropped, as by a socket.
//
// The package never delays, reorders or damages anything: a wrapper of a port
// can do that.
package pipe
