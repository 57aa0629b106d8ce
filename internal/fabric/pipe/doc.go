// Package pipe is a network inside the process: ports that hand each other
// runs of segments through bounded queues. It stands in for a network where
// there is none: in examples, in tests and in the browser. It runs on every
// system, js/wasm included.
//
// Reading order: network.go (who is reachable), queue.go (what waits to be
// received), port.go (the fabric.Port).
//
// A run arrives as one datagram with a stride, as it would from a kernel with
// segmentation offload at both ends, and with its IPv4 identification, so the
// whole ICRC can be checked. What finds its receiver's queue full is dropped,
// as a socket would drop it.
//
// The package never delays, reorders or damages anything: that is for a port
// wrapped around this one.
package pipe
