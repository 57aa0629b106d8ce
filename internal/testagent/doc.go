// Package testagent drives another adapter. agent.c is a program for the
// adapter's host, which needs only libibverbs: it creates queue pairs and
// regions and posts work requests at the client's request over TCP, and reports
// their outcome. This package has its source, and the client of its protocol.
//
// Reading order: agent.c (the protocol, and the table of commands at its end),
// source.go, client.go (the connection), reply.go (replies), device.go,
// memory.go, pattern.go, queue.go, qp.go, post.go (the verbs).
//
// It never decides what is right: that is its callers' task. It trusts nothing
// that the program sends.
package testagent
