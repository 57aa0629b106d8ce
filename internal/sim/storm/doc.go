// Package storm simulates connection storms: adapters whose programs connect,
// accept, reject, delay, resolve, send, disconnect and vanish at random, over a
// network that loses a fifth of all packets, in virtual time, all from one
// seed. After every step it checks that the communication managers obey their
// specification.
//
// Read plan.go (the parameters that a seed draws), world.go (the run, its clock
// and its schedule), network.go (the network and its faults), host.go (an
// adapter and its program), side.go and phase.go (the model of one end of a
// connection), event.go, program.go and verbs.go (the events, decisions and
// calls of a program), action.go and forge.go (spontaneous actions, faults and
// attackers), socket.go and message.go (queue pairs and data), privatedata.go
// (private data of messages), wire.go, receive.go and expect.go (the MADs that
// the oracle reads, and their expected effects), check.go (invariants after a
// step), claim.go and examination.go (a REQ or REP with the queue pair of
// another connection), settle.go (the end: nothing may be left half open),
// cells.go and marks.go (coverage).
//
// The oracle uses only the engine's public calls, its events and the bytes on
// the wire. It never repairs, and never retries.
package storm
