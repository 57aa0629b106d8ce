// Package channels simulates reliable datagram channels: adapters with many queue
// pairs over few EE contexts, in virtual time, all from one seed. The programs use
// SEND, WRITE, READ and atomics, post invalid requests, reset, drain, destroy and
// recreate queue pairs and EE contexts with work in flight, and agree on alternate
// paths. The network loses, repeats, delays and damages packets, its paths fail and
// heal, and strangers forge packets. The oracle checks that every message arrives
// once and in the order of its queue pair, that each request completes with an
// explicable status, that no queue pair starves, that channels survive errors of
// their queue pairs and paths, and that forged packets, and packets over a path that
// was left, have no effect.
//
// Read world.go (the run and its clock), network.go (the fate of packets), delay.go (bounds of
// waits), node.go (adapters, their memory and the channels between them), paths.go (the paths of a
// channel), program.go and receives.go (the programs), forge.go (strangers), and judge.go (the
// model and the checks).
//
// The oracle uses only the engine's public calls, its events and the bytes on the
// wire. It never repairs, and never retries.
package channels
