// Package qp is one queue pair: its state machine and its three engines. The
// requester turns send work requests into packets, the responder executes the
// requests of the peer, the completer matches the peer's answers to what the
// requester sent.
//
// Reading order: qp.go (the structure and its entry points), modify_table.go,
// modify.go, modify_values.go and apply.go (how software moves a QP), state.go and flush.go
// (how it moves by itself), behaviour.go (what each state does), queue.go and
// post.go (work requests), cq.go, srq.go and ah.go (the objects a QP uses);
// then requester.go, packet.go, completer.go, retry.go, flow.go and credit.go
// (sending); responder.go, execute.go, resource.go and respond.go (RC
// receiving); uc.go and ud.go; inject.go (failing on demand).
//
// Nothing here does I/O, reads a clock, starts a goroutine or logs: time is
// handed in, packets are appended to a batch that is handed in, and what
// happened is counted, traced, completed or raised as an event. Except for
// the posting calls and the CQ, which have locks of their own, everything is
// called by the thread that holds the shard.
package qp
