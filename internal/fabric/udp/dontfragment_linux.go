//go:build portable

package udp

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// dontFragment sets DF, with which the system sends identification 0. It lets
// the portable port be tested here.
func dontFragment(conn *net.UDPConn, v4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	level, name, value := unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	if v4 {
		level, name, value = unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), level, name, value)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("udp: don't fragment: %w", err)
	}
	return nil
}
