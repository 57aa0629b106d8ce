// Package sim runs several adapters on a network that fails, in virtual time,
// all from one seed, and checks after every step that they keep their
// promises.
//
// Read config.go and plan.go (what a seed makes of a run), world.go (the
// clock; connection storms and reliable datagrams are worlds of their own, in
// packages storm and channels),
// network.go and node.go (what carries packets, and what receives them),
// pair.go, paths.go, space.go and op.go (the model of queue pairs, their paths,
// memory and work requests), action.go, post.go and datagram.go (what programs do),
// complete.go, explain.go, state.go and delay.go (the oracle), mark.go (what happened
// at all), ladder.go and minimize.go (what a person sees of a failure), watch.go (what others
// can compare their own conclusions with),
// campaign.go (many seeds on several processors).
//
// The oracle knows nothing of the engine but its public calls, its records
// and the bytes on the wire. It never repairs, and never retries.
package sim
