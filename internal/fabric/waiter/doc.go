// Package waiter is how ports wait that have no descriptors to poll: one in
// the process, and sockets of the standard library.
//
// Reading order: waiter.go.
package waiter
