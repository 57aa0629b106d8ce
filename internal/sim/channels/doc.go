// Package channels runs reliable datagram channels: adapters with many queue
// pairs over few EE contexts, whose programs send, write, read and count, name what
// they may not, and reset, drain, destroy and remake queue pairs and EE contexts
// with work in flight, over a network that loses, repeats, delays and damages
// packets, in virtual time, all from one seed; and it checks what the service
// promises: every message once, in the order of its queue pair, each request
// completed with a status that its program has earned, nobody starved, and a
// channel that stays whatever its queue pairs do.
//
// Read world.go (the run, its clock and its network), node.go (adapters, their
// memory and the channels between them), program.go (what programs do), and
// judge.go (the model, and what must hold).
//
// The oracle knows nothing of the engine but its public calls, its events and the
// bytes on the wire. It never repairs, and never retries.
package channels
