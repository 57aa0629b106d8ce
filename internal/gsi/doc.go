// Package gsi is the general services interface: QP1 of an adapter, through
// which management datagrams (MADs) travel (C1, C12). It is not a queue pair of
// the verbs: it has no work requests, no completions and no memory regions.
//
// The interface has two sides. The data path calls Admit for arriving packets, Refuse, and
// Transmit, which empties a bounded queue of MADs to send by a port. The control plane calls the rest:
// agents and requests, Deliver, Advance and Deadline. Each side is used by one thread at a
// time; each queue has a lock. Receive needs both sides.
//
// Reading order: address.go (destinations), gsi.go (the interface, the calls of the engine
// and the counters), agent.go (users of MAD classes), transaction.go with table.go (requests
// that wait for an answer), receive.go, answer.go (answers of the interface itself), queue.go
// and transmit.go.
//
// The package does no I/O and reads no clock. It knows classes and methods, but
// not the attributes of a class. Every function that the interface calls runs on the
// thread of the control plane.
package gsi
