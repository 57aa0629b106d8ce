// Package judge plays protocol scripts to another adapter and reports how it
// differs: a conformance test for RoCEv2. The packets of a script's peer leave
// through our port; a program on the adapter's host (internal/testagent)
// creates the script's objects on its adapter, posts the work requests, and
// reports completions, events, states and memory.
//
// Reading order: plan.go (which parts of a script can be judged), judge.go
// (runs), stage.go and actions.go (the script's objects and actions on the
// adapter), wire.go (packets out and in), run.go and compare.go (steps, waits,
// comparison), show.go, result.go, report.go (for machines), page.go (for
// people).
//
// Numbers of queue pairs, keys and addresses are translated: PSNs, the peer's own
// numbers and the path MTU are the script's. Time is not: retry timers that a
// script needs run for a second, others not at all; RNR NAKs ask for the longest
// wait; times are never judged, only which packets and events come, and in which
// order. If nothing comes for a while, that counts as silence.
//
// An expectation is met, not met, or not observable (a counter, a reason for a
// drop). What the architecture leaves open is not compared: when a requester asks
// for acknowledgements, whether a responder coalesces them, its credits, MigReq,
// the order between send and receive completions. A difference counts if every
// one of several runs shows it. After a difference that leaves a queue pair in
// another state than the script's, that queue pair is judged no further; memory
// is reset to the script's, so that the difference does not spread to other queue
// pairs.
//
// The package never decides that a peer is wrong: it reports the expectation and
// the result, and shows the packets.
package judge
