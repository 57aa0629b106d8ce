package iface

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSockaddr resolves zones that are names and indices of interfaces; index 1 is the
// loopback interface.
func TestSockaddr(t *testing.T) {
	for addr, zone := range map[string]uint32{"fe80::1": 0, "fe80::1%lo": 1, "fe80::1%1": 1, "fe80::1%7": 7, "fe80::1%nothing": 0} {
		a, ok := sockaddr(netip.MustParseAddr(addr), discard).(*unix.SockaddrInet6)
		if !ok || a.ZoneId != zone || a.Port != discard || netip.AddrFrom16(a.Addr) != netip.MustParseAddr("fe80::1") {
			t.Errorf("%s: %+v, want zone %d", addr, a, zone)
		}
	}
	if a, ok := sockaddr(netip.MustParseAddr("127.0.0.1"), 0).(*unix.SockaddrInet4); !ok || a.Addr != [4]byte{127, 0, 0, 1} {
		t.Errorf("127.0.0.1: %+v", a)
	}
}

// TestRouteMTU asks for a route over the loopback interface, and for a route from an address
// that the host does not have.
func TestRouteMTU(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	if mtu, ok := RouteMTU(lo, netip.MustParseAddr("127.0.0.2")); !ok || mtu < 1280 {
		t.Errorf("MTU %d, %v of the loopback interface", mtu, ok)
	}
	if mtu, ok := RouteMTU(netip.MustParseAddr("192.0.2.1"), lo); ok {
		t.Errorf("MTU %d from an address that the host does not have", mtu)
	}
}
