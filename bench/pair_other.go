//go:build !linux

package main

import (
	"net"
	"strconv"
)

// listens reports whether a program listens on a TCP port: then it cannot be
// bound.
func listens(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return true
	}
	_ = l.Close() // it was only a test
	return false
}
