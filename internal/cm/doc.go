// Package cm is the communication manager: the machines that set up, keep and
// tear down connections and resolve services by MADs between two QP1s (C1 to
// C10).
//
// Both machines, the active and the passive one, are one table of data: what
// each input (a message, a call of the consumer, a timer) does in each state.
// It is executed, tested cell by cell, and printed as documentation.
//
// Reading order: state.go and input.go (the words), table.go (the machine),
// action.go (what its steps do), conn.go and manager.go (the objects),
// receive.go (from a MAD to an input), listener.go, early.go and halfopen.go (what peers
// may ask for), verbs.go, sidr.go and lap.go (from a call to an input), event.go
// (what the consumer hears), params.go and qpattr.go (what is asked for and what
// a QP gets), paths.go (a QP that changes its path), timer.go, counters.go, describe.go (the machine in words).
//
// It is engine code: it reads no clock, does no I/O and keeps no memory that
// is not bounded by its Limits. Calls and handlers run on the thread that holds
// the adapter's shard; a handler may call any verb of its connection.
package cm
