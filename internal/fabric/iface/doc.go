// Package iface finds the network interface behind an address, for ports that
// are opened by address.
//
// Reading order: iface.go.
//
// The package never changes an interface.
package iface
