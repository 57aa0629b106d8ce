// Package ends gives the two adapters of a case one interface: ours, through
// package verbs, and a peer's, through the test agent on its host. So each case
// is written once, for a requester and a responder, and runs in both
// directions, and also between two of our adapters.
//
// Reading order: end.go (what an end can do), ours.go, memory.go, qp.go,
// window.go, peer.go, connect.go (two queue pairs, from RESET to RTS).
//
// It neither judges nor retries: it passes on the adapters' results.
package ends
