//go:build !linux && !darwin && !windows

package udp

import "net"

// dontFragment has no portable way to set DF.
func dontFragment(*net.UDPConn, bool) error { return nil }
