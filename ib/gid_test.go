package ib

import (
	"net/netip"
	"testing"
)

func TestGID(t *testing.T) {
	for _, c := range []struct {
		addr      string
		back      string // the address that comes back, if it is another
		text      string
		multicast bool
	}{
		{addr: "10.0.0.1", text: "0000:0000:0000:0000:0000:ffff:0a00:0001"},
		{addr: "::ffff:10.0.0.1", back: "10.0.0.1", text: "0000:0000:0000:0000:0000:ffff:0a00:0001"},
		{addr: "fe80::1%eth0", back: "fe80::1", text: "fe80:0000:0000:0000:0000:0000:0000:0001"},
		{addr: "2001:db8::abcd", text: "2001:0db8:0000:0000:0000:0000:0000:abcd"},
		{addr: "224.0.0.5", text: "0000:0000:0000:0000:0000:ffff:e000:0005", multicast: true},
		{addr: "239.255.255.255", text: "0000:0000:0000:0000:0000:ffff:efff:ffff", multicast: true},
		{addr: "240.0.0.1", text: "0000:0000:0000:0000:0000:ffff:f000:0001"},
		{addr: "ff0e::1", text: "ff0e:0000:0000:0000:0000:0000:0000:0001", multicast: true},
	} {
		g := GIDFromAddr(netip.MustParseAddr(c.addr))
		if c.back == "" {
			c.back = c.addr
		}
		if g.Addr().String() != c.back || g.String() != c.text || g.IsMulticast() != c.multicast || g.IsZero() {
			t.Errorf("%s: address %v, GID %v, multicast %v, zero %v", c.addr, g.Addr(), g, g.IsMulticast(), g.IsZero())
		}
	}
	if !(GID{}).IsZero() {
		t.Error("the empty GID is not zero")
	}
}
