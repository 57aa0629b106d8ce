// Package device is a running adapter: the engine (internal/hca, which creates internal/shard) with a port, a
// driver, asynchronous events and injected faults. Package verbs is its public
// interface, and package rdmacm connects over it.
//
// Reading order: config.go, board.go and port.go (the configuration; the port
// with its wrappers), address.go, identity.go (the attributes of an adapter
// before it is opened), device.go (the calls), queuepair.go (the verbs of queue
// pairs and EE contexts, which verbs and the engine of the C library convert
// to), object.go and event.go (asynchronous events and their objects), watch.go
// (notification of the end), network.go (lost local addresses), rules.go and
// inject.go (faults on demand), door.go (access of rdmacm to the objects of
// verbs).
//
// The package keeps no list of adapters, and treats objects of verbs as opaque
// values.
package device
