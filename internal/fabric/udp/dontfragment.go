//go:build (linux && portable) || darwin || windows

package udp

import (
	"fmt"
	"net"
)

// dontFragment sets DF.
func dontFragment(conn *net.UDPConn, v4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = setDF(fd, v4) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("udp: don't fragment: %w", err)
	}
	return nil
}
