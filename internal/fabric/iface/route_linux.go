package iface

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// discard is the destination port of the socket, which sends nothing.
const discard = 9

// RouteMTU returns the MTU of the host's route from src to dst: that of the interface, or a
// lower one of the route or from a router's report. ok is false if the host has no such
// route. RouteMTU sends no packet.
func RouteMTU(src, dst netip.Addr) (mtu int, ok bool) {
	from := net.UDPAddrFromAddrPort(netip.AddrPortFrom(src.WithZone(dst.Zone()), 0))
	c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, discard)))
	if err != nil {
		return 0, false
	}
	defer func() { _ = c.Close() }() // nothing was sent
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if dst.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	failed := raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), level, option) })
	return mtu, failed == nil && err == nil
}
