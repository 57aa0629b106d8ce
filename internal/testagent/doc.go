// Package testagent drives an adapter that is not ours. agent.c is a program for
// the adapter's host, which needs nothing but libibverbs: it makes queue pairs,
// regions and work requests as it is told over TCP, and tells what became of
// them. This package has its source, and the client of its protocol.
//
// Reading order: agent.c (the protocol, and the table of commands at its end),
// source.go, client.go (the connection), reply.go (what comes back), device.go,
// memory.go, pattern.go, queue.go, qp.go, post.go (the verbs).
//
// It never decides what is right: that is for those who call it. What a peer's
// program sends is parsed as a stranger's.
package testagent
