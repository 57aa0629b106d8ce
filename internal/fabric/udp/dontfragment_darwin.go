package udp

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// dontFragment sets DF. The system sends identification 0 with it (RFC 6864).
func dontFragment(conn *net.UDPConn, v4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	level, name := unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG
	if v4 {
		level, name = unix.IPPROTO_IP, unix.IP_DONTFRAG
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), level, name, 1)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("udp: don't fragment: %w", err)
	}
	return nil
}
