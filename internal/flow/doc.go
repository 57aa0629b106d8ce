// Package flow decides when a sender may send, and what it sends again: how many bytes of it, and of
// all senders to the same address, may be in flight, how fast it may send, how long it waits for an
// answer, and which packets it repeats then. A sender tells it what it sent, what was acknowledged and
// what is missing; it answers which packet is next, whether it may go, and when to ask again. It
// knows packets only by their PSNs and sizes, and sends nothing itself.
//
// Reading order:
//
//   - flight.go: the packets in flight of one sender, and which one is next
//   - recovery.go, repair.go: which of them are repeated after a loss, and when
//   - retry.go: the retries that the verbs allow, and their timers
//   - share.go: the bytes in flight of one sender, and whether it may send more
//   - controller.go: the congestion control of one sender, an interface
//   - window.go: its implementation, a window that answers losses and queueing delay
//   - peer.go: what all senders to one address share
//   - table.go: the peers by address, and what is known of those without senders
//   - roundtrip.go: round trips, and the timeouts that follow from them
//   - inflight.go: which packets beyond a gap have arrived
//   - pace.go: a rate limit
//   - socketcredit.go: how much senders without acknowledgements may send to a socket of this host
//
// A congestion control that answers marks with a rate, such as DCQCN, is another Controller. The
// marks of arriving packets do not reach it yet.
package flow
