package iface

import (
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// RouteMTU returns the MTU of the host's route from src to dst: that of the interface, or a
// lower one of the route or from a router's report. ok is false if the host has no such
// route. RouteMTU sends no packet.
//
// A program calls it for every connection, so it uses a plain descriptor: package net would
// also register the socket with the runtime's poller and read both its addresses.
func RouteMTU(src, dst netip.Addr) (mtu int, ok bool) {
	family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_MTU
	if dst.Is6() {
		family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = unix.Close(fd) }() // nothing was sent
	if unix.Bind(fd, sockaddr(src.WithZone(dst.Zone()), 0)) != nil || unix.Connect(fd, sockaddr(dst, discard)) != nil {
		return 0, false
	}
	mtu, err = unix.GetsockoptInt(fd, level, option)
	return mtu, err == nil
}

// sockaddr returns an address for a system call. Its zone is the name or the index of an
// interface; a zone without such an interface is ignored.
func sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	to := &unix.SockaddrInet6{Addr: a.As16(), Port: port}
	if zone := a.Zone(); zone != "" {
		if nif, err := net.InterfaceByName(zone); err == nil {
			to.ZoneId = uint32(nif.Index)
		} else if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			to.ZoneId = uint32(n)
		}
	}
	return to
}
