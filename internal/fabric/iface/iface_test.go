package iface_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/fabric/iface"
	"github.com/softhca/softhca/internal/must"
)

func TestLoopbackOwnsAllItsAddresses(t *testing.T) {
	for _, s := range []string{"127.0.0.1", "127.200.3.4"} {
		nif, err := iface.Owner(netip.MustParseAddr(s))
		must.Do(t, err)
		if !iface.Virtual(nif) {
			t.Errorf("%s of %s has hardware behind it", nif.Name, s)
		}
	}
	if nif, err := iface.Owner(netip.MustParseAddr("192.0.2.77")); err == nil {
		t.Errorf("%s owns an address of the documentation range", nif.Name)
	}
}

func TestPayloadLeavesRoomForHeaders(t *testing.T) {
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()
	for _, c := range []struct {
		a         netip.Addr
		mtu, want int
	}{{v4, 1500, 1472}, {v6, 1500, 1452}, {v4, 65536, 65507}, {v6, 65536, 65488}} {
		if got := iface.Payload(c.mtu, c.a); got != c.want {
			t.Errorf("MTU %d to %v: payload %d, not %d", c.mtu, c.a, got, c.want)
		}
	}
}

func TestCleanRefusesWhatIsNoPort(t *testing.T) {
	a := netip.MustParseAddr("127.0.0.9")
	many := make([]netip.Addr, 257)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
	}
	for _, c := range []struct {
		name  string
		addrs []netip.Addr
		says  string
	}{
		{"none", nil, "no address"},
		{"zero", []netip.Addr{{}}, "not the address of an interface"},
		{"unspecified", []netip.Addr{netip.IPv6Unspecified()}, "not the address of an interface"},
		{"multicast", []netip.Addr{netip.MustParseAddr("ff02::1")}, "not the address of an interface"},
		{"twice", []netip.Addr{a, netip.MustParseAddr("::ffff:127.0.0.9")}, "given twice"},
		{"many", many, "at most 256"},
	} {
		if _, err := iface.Clean(c.addrs); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the error is %v, not %q", c.name, err, c.says)
		}
	}
	got, err := iface.Clean([]netip.Addr{netip.MustParseAddr("fe80::1%lo"), a})
	if err != nil || got[0] != netip.MustParseAddr("fe80::1") || got[1] != a {
		t.Errorf("cleaned to %v, %v", got, err)
	}
}
