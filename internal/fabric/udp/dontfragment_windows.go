package udp

import "syscall"

// The options of <ws2ipdef.h>, which package syscall does not name.
const (
	ipDontFragment   = 14
	ipv6DontFragment = 14
)

// setDF sets DF. The system numbers packets nevertheless, so over IPv4 only
// peers that derive the identification accept them.
func setDF(fd uintptr, v4 bool) error {
	if v4 {
		return syscall.SetsockoptInt(syscall.Handle(fd), syscall.IPPROTO_IP, ipDontFragment, 1)
	}
	return syscall.SetsockoptInt(syscall.Handle(fd), syscall.IPPROTO_IPV6, ipv6DontFragment, 1)
}
