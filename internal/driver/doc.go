// Package driver gives an adapter time and a network: it has the only
// goroutine and reads the only clock. It binds a shard to a port.
//
// Whoever holds the driver's lock is the shard's thread. A post that gets the
// lock transmits at once; one that does not leaves a doorbell that the holder
// answers before it lets go. A poll of an empty completion queue may run the
// shard too. One goroutine waits in the port for everybody else; it steps aside
// while others poll for long, and returns at once when a completion queue is
// armed. It steps aside as well for a thread that sleeps until there is a
// completion, which then waits in the port itself.
//
// While programs poll, a post to a queue that is not empty may wait for others
// to leave with in one system call, as lists of requests do. Whoever transmits
// next sends it: the next poll of an empty completion queue; the post that makes
// the batch full; a post or a poll that finds that 20 µs have passed; a call of
// the verbs or of the connection manager, which thereby finds all under way that
// was posted before; the arming of a completion queue; a thread that goes to
// sleep; a post of another thread that met a lock which was taken; or the
// goroutine, when it looks whether there is polling still, for a program that
// does nothing of all that. What is owed to peers, such as acknowledgements,
// leaves with it. Posts wait only of programs whose polls have followed several
// posts at a time, and soon: see coalesce.go. A queue pair that flushes has none
// that wait, nor one whose requests complete when they are sent, as those of UD.
// As long as a post waits, producers outside Go, to whom the way here is long, need
// not ring the doorbell for more to the same queue: whoever transmits looks there.
//
// Reading order: driver.go, pollers.go (who reads the port), linger.go (between
// arrivals), sleep.go, coalesce.go (posts that wait), spared.go (and ring no doorbell).
package driver
