// Package driver gives an adapter time and a network: it has the only
// goroutines and reads the only clock. It binds a shard to its ports, and runs the
// adapter's control plane on the same threads.
//
// The thread that holds the driver's lock is the shard's thread. A post that gets
// the lock transmits at once; a post that does not rings a doorbell, which the
// holder answers before it unlocks. A poll of an empty completion queue may run
// the shard too. One goroutine waits at the port for all other threads. It steps
// aside during sustained polling, and returns at once when a completion queue is
// armed. It also steps aside for a thread that sleeps until there is a completion:
// that thread then waits at the port itself. If several threads sleep and wake in turn, they
// leave the port to each other: see company.go. All this is about the first port: each other
// port has a goroutine of its own, which never steps aside. Every thread that receives or
// sends does so at all ports.
//
// While programs poll, a post to a queue that is not empty may wait, to be sent
// with later posts in one system call, like a list of requests. The next thread
// that transmits sends it. This is
//
//   - the next poll of an empty completion queue,
//   - a post that fills the batch,
//   - a post or a poll after 20 µs,
//   - a call of the verbs or of the connection manager, so that all earlier posts are
//     sent before it,
//   - the arming of a completion queue,
//   - a thread that goes to sleep,
//   - a post of another thread that found the lock taken, or
//   - the goroutine when it checks for polling, for a program that does none of this.
//
// Packets owed to peers, such as acknowledgements, are sent with it. Only posts of
// programs that poll soon after several posts wait: see coalesce.go. A queue pair
// that flushes has no waiting posts, and neither has one whose requests complete when
// they are sent, as with UD. While a post waits, producers outside Go, for which a
// doorbell is expensive, need not ring it for more posts to the same queue: the
// transmitting thread looks there.
//
// The control plane has a lock of its own, which is taken before that of the shard. A
// call of the verbs or of the connection manager takes it, and enters the shard for
// single steps, so data flows meanwhile. A thread that has received a MAD leaves the
// shard and then runs the control plane, unless another thread does: that one finds the
// MAD before it is done. See control.go.
//
// Reading order: driver.go, port.go, control.go, pollers.go (which thread reads the port), busypoll.go (waiting
// between arrivals), sleep.go, company.go (several threads that sleep), coalesce.go (posts that wait), suppressed.go (suppressed
// doorbells).
package driver
