// Package device is an adapter that runs: the engine (internal/hca) with a
// port, a driver, its asynchronous events and the faults that rules ask for.
// Package verbs gives it the shape of a public interface, and package rdmacm
// connects over it.
//
// Reading order: config.go, board.go and port.go (what an adapter is opened
// with; its port in its wrappings), address.go, identity.go (what it will be),
// device.go (the calls), object.go and event.go (what events are about),
// watch.go (who is told of the end), network.go (addresses that the host
// loses), rules.go and inject.go (faults on demand), door.go (how rdmacm gets
// behind an object of verbs).
//
// The package keeps no list of adapters, and knows the types of verbs only as
// what it hands back.
package device
