package iface

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/fabric"
)

// Family returns the address family of sockets for an address.
func Family(a netip.Addr) int {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// Sockaddr returns RoCE's port of an address. scope is the interface of a link-local one.
func Sockaddr(a netip.Addr, scope uint32) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: fabric.RoCEPort, Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: fabric.RoCEPort, Addr: a.As16(), ZoneId: scope}
}

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
