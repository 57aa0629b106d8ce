// Package rdmacm is the public interface of the connection manager: programs
// find each other by IP address and port, and get connected queue pairs.
//
// It has two interfaces. One is that of librdmacm, call for call: a Manager joins
// adapters; IDs are bound, resolved, connected and listen; event channels report the
// results. Its peers may be programs on Linux's rdma_cm. The other is in the style of
// package net: Listen, Accept, Dial, and a Conn that is a net.Conn.
//
// The state of an ID belongs to the thread of its adapter: calls run on it, events
// arrive on it, and it never waits. The only wire format of this package is that of
// Conn. The package starts no goroutine, and sends packets only through the adapter's
// connection manager and queue pairs.
package rdmacm

// For readers of the source: manager.go and adapter.go (shared state), id.go and state.go
// (the object), event.go, eventtype.go and channel.go (events), bind.go with ports.go,
// resolve.go, listen.go with backlog.go, and request.go (from REQ to ID), connect.go (the
// calls), handle.go (events of the CM), qp.go, qpattr.go, altpath.go, option.go,
// multicast.go, migrate.go. The net-style interface: dial.go and dialopt.go, listener.go,
// conn.go, stream.go (the protocol, with greeting.go), deadline.go, addr.go, lease.go.
