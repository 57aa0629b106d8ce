// Package qp is one queue pair, or one EE context of reliable datagrams: its
// state machine and its parts. The requester turns send work requests into
// packets, the completer matches the peer's answers to them, the receiver
// handles the peer's requests and datagrams, and the responder answers the
// requests of a reliable service. They share one endpoint: the queue pair's
// identity, its peer and its timers.
//
// A message of a reliable service takes four steps, each in five files at most (a test of
// internal/hca counts them), of which all have qp.go (the structures, their turns and timers),
// endpoint.go (what all packets of an end share, in both directions) and operation.go (the one
// table of operations):
//
//   - it is posted and sent: post.go, requester.go; package flow says when a packet may go;
//   - executed: responder.go for RC, receiver.go;
//   - answered: answer.go;
//   - completed: completer.go.
//
// The other files:
//
//   - modify_table.go, modify.go, modify_values.go and apply.go: how software moves a QP; state.go:
//     how it moves by itself; migrate.go: its two paths;
//   - after a loss: retry.go carries out what package flow decides; reorder.go, reorderpool.go: the
//     reorder buffers of both sides;
//   - requests that send nothing (BIND_MW, LOCAL_INV): local.go;
//   - READs and atomics: chunk.go, response.go (their answers), ordered.go (atomics, ATOMIC WRITE
//     and FLUSH at the responder);
//   - UC and UD: unreliable.go;
//   - forged packets: challenge.go (probes the peer before a packet ends or moves the
//     connection), msn.go (checks acknowledgements);
//   - reliable datagrams: rd.go (a queue pair's side), eec.go (the EE context,
//     an end, as an RC queue pair is) and eecrecv.go (checks of its requests
//     that RC does not have). The other files do not know them: they call an end's
//     owner (qp.go), and nil functions of requester and responder add nothing;
//   - XRC: xrc.go (a target's checks of the shared receive queue that a request names);
//   - cq.go, moderation.go (delays a CQ's events), srq.go and ah.go: the objects that
//     a QP uses; env.go: the state that all QPs share; port.go: ports and paths;
//     inject.go: faults on demand; nasty.go: what Env.Nasty chooses on the wire.
//
// Nothing here does I/O, reads a clock, starts a goroutine or logs: the caller
// passes in the time and a batch for packets; results are counters, traces,
// completions and events. A CQ whose entries hold times has a function of its creator
// for them. Except for the posting calls and the CQ, which any
// goroutine may use, everything is called by the thread that holds the shard.
package qp
