// Package poll waits for sockets and closes them safely: what the Linux ports
// have in common. A Poller owns the sockets of a port; it counts the calls
// that use them, so that a Close from another goroutine never closes a
// descriptor under a system call, where its number might already be someone
// else's.
//
// Wait and Readable are for any descriptor.
//
// Reading order: poller.go, wait.go.
//
// The package never reads or writes the sockets.
package poll
