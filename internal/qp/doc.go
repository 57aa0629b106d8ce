// Package qp is one queue pair, or one EE context of reliable datagrams: its
// state machine and its parts. The requester turns send work requests into
// packets, the completer matches the peer's answers to them, the receiver takes
// in what the peer sends, and the responder answers the requests of the peer of
// a reliable service. They work on one endpoint: who the queue pair is, whom it
// talks to, and its timers.
//
// Reading order: qp.go and end.go (the structures and their entry points),
// endpoint.go, operation.go (the one table of operations); modify_table.go,
// modify.go, modify_values.go and apply.go (how software moves a QP), state.go
// (how it moves by itself), behaviour.go (what each state does), migrate.go
// (its two paths), pace.go (how fast it sends); then
//
//   - sending: post.go, sendqueue.go, requester.go, chunk.go, share.go (its
//     part of what is on its way to the peer), window.go, peer.go, completer.go;
//   - when something is lost: retry.go (what the verbs ask for), repair.go (how
//     less is sent again than everything), roundtrip.go (when a probe is due),
//     peers.go (what is known of a peer);
//   - receiving: receiver.go, and for RC responder.go, resource.go,
//     for UC and UD unreliable.go; keep.go, keeppool.go: what came before its turn, on both
//     sides; resend.go: how far a peer has come that sends again; ipid.go:
//     damage that the ICRC lets pass;
//   - strangers: challenge.go (what a packet claims about the peer is examined before the
//     connection ends or moves), msn.go (which acknowledgements fit);
//   - reliable datagrams: rd.go (a queue pair's side), eec.go (the EE context,
//     which is an end as RC's queue pair is one) and eecrecv.go (what its
//     requests have beside those of RC);
//   - cq.go, srq.go and ah.go: the objects that a QP uses; env.go: what all
//     QPs share; inject.go: failing on demand.
//
// Nothing here does I/O, reads a clock, starts a goroutine or logs: time is
// handed in, packets are appended to a batch that is handed in, and what
// happened is counted, traced, completed or raised as an event. Except for
// the posting calls and the CQ, which any goroutine may use, everything is
// called by the thread that holds the shard.
package qp
