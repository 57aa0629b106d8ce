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
// Reading order: driver.go, pollers.go (who reads the port), linger.go (between
// arrivals), sleep.go.
package driver
