// Package rdmacm is the public interface of the connection manager: programs
// find each other by IP address and port, and get connected queue pairs.
//
// It is the interface of librdmacm, call for call: a Manager joins adapters; IDs are bound,
// resolved, connected and listen; event channels report the results. Its peers may be
// programs on Linux's rdma_cm. Package stream has connections in the style of package net.
//
// The state of an ID belongs to the thread of its adapter: calls run on it, events
// arrive on it, and it never waits. The package has no wire format and starts no goroutine;
// it sends packets only through the adapter's connection manager and queue pairs.
package rdmacm

// For readers of the source. Shared state: manager.go, adapter.go, ports.go. The object:
// id.go, and its parts: binding.go (where it is), inbox.go with event.go, eventtype.go and
// channel.go (its events), link.go with state.go (its connection, and the events of the
// CM), multicast.go (its groups). The calls: resolve.go, route.go, listen.go with backlog.go,
// request.go (from REQ to ID), connect.go, datagram.go (RD), qp.go, qpattr.go, altpath.go,
// option.go.
