package iface

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Subscribe makes the host a member of a group on an interface while the socket
// fd is open.
func Subscribe(fd int, group netip.Addr, ifindex int) error {
	if group.Is4() {
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)})
	}
	return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)})
}

// RecvBuffer sets the receive buffer of a socket to n bytes: beyond the
// system's limit if that is allowed, otherwise up to it.
func RecvBuffer(fd, n int) { buffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, n) }

// SendBuffer is RecvBuffer for the send buffer.
func SendBuffer(fd, n int) { buffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, n) }

func buffer(fd, force, plain, n int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, n)
	}
}
