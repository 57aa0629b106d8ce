// Package judge plays protocol scripts to an adapter that is not ours and tells
// where it does otherwise: a conformance test for RoCEv2. The packets of a
// script's peer leave through a port of ours; a program on the adapter's host
// (internal/testagent) makes what the script has on its adapter, posts its work
// requests, and reports completions, events, states and memory.
//
// Reading order: plan.go (what of a script can be judged), judge.go (runs),
// stage.go and deeds.go (the script's objects and deeds on the adapter), wire.go
// (packets out and in), run.go and compare.go (steps, waits, comparison),
// show.go, result.go, report.go (for machines), page.go (for people).
//
// Numbers of queue pairs, keys and addresses are translated: PSNs, the peer's
// own numbers and the path MTU are the script's. Time is not: retry timers that a
// script needs run for a second, others not at all; the waits after RNR NAKs are
// the longest there are; an instant is never judged, but only what comes and in
// which order. Silence is that nothing comes for a while.
//
// An expectation is met, not met, or not observable (a counter, a reason for a
// drop). What the architecture leaves open is not compared: when a requester asks
// for acknowledgements, whether a responder sends one for several packets, its
// credits, MigReq, in which order completions of the two work queues mix. A
// difference counts if every one of several runs shows it. After one that leaves
// a queue pair elsewhere than the script supposes, no more of that queue pair is
// judged; memory is set right, so that others are not taken in.
//
// The package never decides that a peer is wrong: it says what was expected, what
// came, and shows the packets.
package judge
