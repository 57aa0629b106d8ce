// Package testagent drives another adapter. The directory agent has a program for
// the adapter's host, which needs only libibverbs: it creates queue pairs and
// regions and posts work requests at the client's request over TCP, and reports
// their outcome. This package has its source, and the client of its protocol.
//
// Reading order: agent/agent.c (the protocol), agent/command.c (the table of
// commands), agent/agent.h, source.go, client.go (the connection), reply.go (replies), device.go,
// memory.go, pattern.go, queue.go, qp.go, post.go (the verbs).
//
// It never decides what is right: that is its callers' task. It trusts nothing
// that the program sends.
package testagent
