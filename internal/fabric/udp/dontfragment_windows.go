package udp

import (
	"fmt"
	"net"
	"syscall"
)

// The options of <ws2ipdef.h>, which package syscall does not name.
const (
	ipDontFragment   = 14
	ipv6DontFragment = 14
)

// dontFragment sets DF. The system numbers packets all the same, so only
// peers that derive the identification accept what leaves over IPv4.
func dontFragment(conn *net.UDPConn, v4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	level, name := syscall.IPPROTO_IPV6, ipv6DontFragment
	if v4 {
		level, name = syscall.IPPROTO_IP, ipDontFragment
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(syscall.Handle(fd), level, name, 1)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("udp: don't fragment: %w", err)
	}
	return nil
}
