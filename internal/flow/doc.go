// Package flow decides when a sender may send: how many bytes of it, and of all senders to the
// same address, may be in flight, how fast it may send, and how long it waits for an answer. A
// sender tells it what it sent, what was acknowledged and lost, and the round trips; it answers
// whether one more request may go, and when to ask again. It sends nothing itself.
//
// Reading order:
//
//   - share.go: the bytes in flight of one sender, and whether it may send more
//   - window.go: the window of one sender, which answers losses and queueing delay
//   - peer.go: what all senders to one address share
//   - table.go: the peers by address, and what is known of those without senders
//   - roundtrip.go: round trips, and the timeouts that follow from them
//   - landing.go: which packets beyond a gap have arrived
//   - pace.go: a rate limit
//
// A congestion control that answers marks with a rate, such as DCQCN, belongs next to the window:
// it sets a Pacer, which the sender asks together with its Share.
package flow
