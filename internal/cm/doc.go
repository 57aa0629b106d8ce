// Package cm is the communication manager: the machines that set up, maintain
// and tear down connections and resolve services by MADs between two QP1s (C1
// to C10).
//
// Both machines, the active and the passive one, are one table of data: what
// each input (a message, a call of the consumer, a timer) does in each state.
// It is executed, tested cell by cell, and printed as documentation.
//
// Reading order: state.go and input.go (the vocabulary), table.go (the machine), action.go (its
// actions), conn.go and manager.go (the objects), receive.go (from a MAD to an input), listener.go,
// early.go and halfopen.go (requests of peers, and their limits), verbs.go, sidr.go and lap.go
// (from a call to an input), event.go (events for the consumer), params.go and qpattr.go
// (parameters of messages and of the QP), paths.go (a QP that changes its path), timer.go,
// counters.go, track.go and tell.go (what others see of a connection), late.go (messages that are delayed on purpose), describe.go (the machine in words).
//
// It is engine code: it reads no clock, does no I/O and uses only memory
// bounded by its Limits. Calls and handlers run on the thread that holds the
// adapter's shard; a handler may call any verb of its connection.
package cm
