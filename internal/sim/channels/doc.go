// Package channels runs reliable datagram channels: adapters with many queue
// pairs over few EE contexts, some of which share their receives, whose programs
// send, write, read and count, name what they may not, reset, drain, destroy and
// remake queue pairs and EE contexts with work in flight, and agree on alternate
// paths; over a network that loses, repeats, delays and damages packets, and whose
// paths fail and heal, with strangers who forge; in virtual time, all from one seed.
// It checks what the service promises: every message once, in the order of its queue
// pair, each request completed with a status that its program has earned, nobody
// starved, a channel that stays whatever its queue pairs and its paths do, and
// nothing that a forged packet, or one over a path that was left, has changed.
//
// Read world.go (the run and its clock), network.go (what becomes of packets),
// delay.go (how long an end may wait), node.go (adapters, their memory and the channels between them), paths.go (the
// paths of a channel), program.go and receives.go (what programs do), forge.go (what
// strangers do), and judge.go (the model, and what must hold).
//
// The oracle knows nothing of the engine but its public calls, its events and the
// bytes on the wire. It never repairs, and never retries.
package channels
