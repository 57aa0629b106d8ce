// Package stream gives programs connections that are streams of bytes: Listen, Accept and
// Dial as in package net, and a Conn that is a net.Conn. Each Conn is an RC queue pair that
// package rdmacm connects.
//
// Both programs must use this package: a stream has a protocol of its own, which uses SENDs
// with immediate data, and a greeting in the private data of the connection manager's
// messages. A Conn and a Listener have no goroutine of their own.
package stream

// For readers of the source: dial.go and listener.go (with option.go, addr.go and lease.go)
// make a Conn, conn.go has its calls (with deadline.go), stream.go the protocol, greeting.go
// its first message.
