package main

import (
	"os"
	"slices"
	"strconv"
)

// The ends of a path, and the TCP port of servers there.
const (
	pathClient = "10.79.0.1"
	pathServer = "10.79.0.2"
	pathPort   = "18516"
)

// pathMTU is the MTU of the interfaces: a RoCE packet of path MTU 4096 with its
// headers fits, and a TCP segment of about that size.
const pathMTU = 4200

// overPath returns the command that runs two programs at the ends of a path
// that loses a share of the packets each way, and prints the client's output.
// The command is this program, in its own namespaces: see isolate.
func overPath(share float64, server, client []string) []string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return slices.Concat([]string{self, "-path", strconv.FormatFloat(share, 'g', -1, 64)}, server, []string{"--"}, client)
}
