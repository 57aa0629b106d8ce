// Package rdmacm is the public interface of the connection manager: programs
// find each other by IP address and port, and get connected queue pairs.
//
// It has two faces. One is that of librdmacm, call for call: a Manager joins
// adapters, IDs are bound, resolved, connected and listen, and event channels
// say what came of it. The other is Go's: Listen, Accept, Dial, and a Conn that
// is a net.Conn. Peers of the first may be programs on Linux's rdma_cm.
//
// The state of an ID belongs to the thread of its adapter, which the calls
// enter and which events come on; nothing waits there. The package speaks no
// wire format of its own but the one of Conn, starts no goroutine, and never
// sends a packet except through the adapter's communication manager and queue
// pairs.
package rdmacm

// For readers of the source: manager.go and adapter.go (who shares what), id.go and state.go
// (the object), event.go, eventtype.go and channel.go (what it tells), bind.go
// with ports.go, resolve.go, listen.go with backlog.go, and request.go (how a
// REQ becomes an ID), connect.go (the calls), handle.go (what the CM answers),
// qp.go, qpattr.go, altpath.go, option.go, multicast.go, migrate.go. Of Go's face: dial.go
// and dialopt.go, listener.go, conn.go, stream.go (the protocol, with
// greeting.go), deadline.go, addr.go, lease.go.
