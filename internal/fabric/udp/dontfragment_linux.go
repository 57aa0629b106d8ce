//go:build portable

package udp

import "golang.org/x/sys/unix"

// setDF sets DF, with which the system sends identification 0. It is for
// testing the portable port on Linux.
func setDF(fd uintptr, v4 bool) error {
	if v4 {
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
}
