// Package storm runs connection storms: some adapters whose programs connect,
// accept, refuse, hesitate, resolve, talk, part and vanish at random, over a
// network that loses a fifth of all packets, in virtual time, all from one
// seed; and it checks after every step that the communication managers keep
// their promises.
//
// Read plan.go (what a seed makes of a run), world.go (the run, its clock, and
// what is to come), network.go (what carries packets, and what becomes of
// them), host.go (an adapter and its program), side.go and phase.go (the model
// of one end of a connection), event.go, temper.go and verbs.go (what a program
// is told, makes of it and does), action.go and forge.go (what it, fate and
// liars do unasked), socket.go and message.go (queue pairs and data),
// privatedata.go (what a message carries for programs), wire.go, receive.go and
// expect.go (what the oracle reads of MADs, and what each must lead to),
// check.go (what must hold after a step), claim.go and examination.go (what a
// REQ or REP leads to whose queue pair another connection has), settle.go (the
// end: nothing may be left half open), cells.go and marks.go (what happened at
// all), ladder.go (what a person sees of a failure).
//
// The oracle knows nothing of the engine but its public calls, its events and
// the bytes on the wire. It never repairs, and never retries.
package storm
