// Package waiter implements Wait for ports without descriptors to poll: the one
// in the process, and the one over sockets of the standard library.
//
// Reading order: waiter.go.
package waiter
