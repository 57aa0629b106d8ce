// Package poll waits for sockets and closes them safely: code that the Linux
// ports share. A Poller owns the sockets of a port. It counts the calls that
// use them, so that a concurrent Close never closes a descriptor during a
// system call, which could then act on another file with the reused number.
//
// Wait and Readable work with any descriptor.
//
// Reading order: poller.go, wait.go.
//
// The package never reads or writes the sockets.
package poll
