// Package sim runs several adapters on a network that fails, in virtual time,
// all from one seed, and checks after every step that they obey their
// specification.
//
// Read config.go and plan.go (the parameters that a seed draws), world.go (the clock;
// connection storms and reliable datagrams are worlds of their own, in packages storm and
// channels), network.go and node.go (the network and the adapters), pair.go, paths.go,
// traits.go, shared.go, xrc.go, space.go, window.go, binding.go, text.go and op.go (the model of queue pairs, their paths, memory, messages and work
// requests), action.go, post.go and datagram.go (the programs), complete.go, explain.go, state.go,
// watcher.go, alarm.go and delay.go (the oracle), carrier.go, socket.go, thread.go and link.go (shared
// memory between adapters of one host, and the checks of it), mark.go (coverage of situations), minimize.go (the
// smallest run that fails), watch.go (ground truth for other tests), campaign.go (many seeds on
// several processors).
//
// The oracle uses only the engine's public calls, its records and the bytes on
// the wire. It never repairs, and never retries.
package sim
