// Package lock is the one place with the order of all locks, and checks it in debug builds.
//
// Each lock has a rank, a type of order.go:
//
//	mu lock.Mutex[lock.Shard] // guards the shard and what follows
//
// Without the build tag lockorder, Mutex[R] is a struct that embeds sync.Mutex, whatever R
// is, and costs nothing more. With the tag, which the gate sets for some tests, each call of
// Lock checks that the goroutine may take the lock while it holds its others. If not, it panics, and names both places.
// TryLock cannot deadlock, so it may break the order, but the locks that are taken after it
// are checked against its lock too.
//
// Read order.go, then mutex.go (without the tag) and checked.go (with it). The tag needs
// amd64 or arm64: the goroutine is known by a register.
package lock
