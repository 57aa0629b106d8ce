package udp

import "golang.org/x/sys/unix"

// setDF sets DF. The system sends identification 0 with it (RFC 6864).
func setDF(fd uintptr, v4 bool) error {
	if v4 {
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_DONTFRAG, 1)
	}
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1)
}
