// Package ends gives the two adapters of a case one face: ours, through package
// verbs, and a peer's, through the test agent on its host. So a case is
// written once, for a requester and a responder, and runs in both directions,
// and also between two of ours, without a peer.
//
// Reading order: end.go (what an end can do), ours.go, memory.go, qp.go,
// peer.go, connect.go (two queue pairs, from RESET to RTS).
//
// It judges nothing, and repeats nothing: what an adapter says is handed on.
package ends
