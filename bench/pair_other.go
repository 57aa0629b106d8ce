//go:build !linux

package main

import (
	"net"
	"strconv"
)

// listens reports whether somebody listens on a TCP port: then nobody else can.
func listens(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return true
	}
	_ = l.Close() // it was only to see
	return false
}
