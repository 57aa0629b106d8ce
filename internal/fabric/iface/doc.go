// Package iface finds the network interface behind an address, for ports that
// are opened by address, and has the code for sockets that the ports share.
//
// Reading order: iface.go, socket_linux.go.
//
// The package never changes an interface.
package iface
