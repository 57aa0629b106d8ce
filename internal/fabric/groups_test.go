package fabric

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
)

// both are the addresses of a port of both families.
var both = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}

func TestGroupsCountTheirUsers(t *testing.T) {
	var g Groups
	join := func(a netip.Addr) (bool, error) { return g.Join(a, both) }
	a, b := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff0e::1")
	for _, c := range []struct {
		why   string
		call  func(netip.Addr) (bool, error)
		group netip.Addr
		edge  bool // the first to join, the last to leave
		err   error
	}{
		{"nobody is there to leave", g.Leave, a, false, ib.EINVAL},
		{"the first joins", join, a, true, nil},
		{"the second joins", join, a, false, nil},
		{"another group has its own users", join, b, true, nil},
		{"the second leaves", g.Leave, a, false, nil},
		{"the last leaves", g.Leave, a, true, nil},
		{"nobody is left", g.Leave, a, false, ib.EINVAL},
		{"the first joins again", join, a, true, nil},
	} {
		if edge, err := c.call(c.group); edge != c.edge || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v; want %v, %v", c.why, edge, err, c.edge, c.err)
		}
	}
}

func TestGroupsRefuse(t *testing.T) {
	var g Groups
	for _, s := range []string{"10.0.0.1", "fe80::1", "::ffff:239.0.0.1", "ff02::1%lo", "::"} {
		if _, err := g.Join(netip.MustParseAddr(s), both); !errors.Is(err, ib.EINVAL) {
			t.Errorf("join %s: %v, want EINVAL", s, err)
		}
	}
	if _, err := g.Join(netip.Addr{}, both); !errors.Is(err, ib.EINVAL) {
		t.Errorf("join no address: %v, want EINVAL", err)
	}
	for i, s := range []string{"ff0e::1", "239.0.0.1"} {
		if _, err := g.Join(netip.MustParseAddr(s), both[i:i+1]); !errors.Is(err, ib.EADDRNOTAVAIL) {
			t.Errorf("join %s without an address of its family: %v, want EADDRNOTAVAIL", s, err)
		}
	}
}

func TestGroupsAreBounded(t *testing.T) {
	var g Groups
	group := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{239, 0, byte(i >> 8), byte(i)}) }
	for i := range MaxGroups {
		if first, err := g.Join(group(i), both); !first || err != nil {
			t.Fatalf("group %d of %d: first %v, %v", i+1, MaxGroups, first, err)
		}
	}
	if _, err := g.Join(group(MaxGroups), both); !errors.Is(err, ib.ENOMEM) {
		t.Errorf("one group more: %v, want ENOMEM", err)
	}
	if _, err := g.Join(group(0), both); err != nil {
		t.Errorf("one more user of a group that is there: %v", err)
	}
	if _, err := g.Leave(group(1)); err != nil {
		t.Fatal(err)
	}
	if first, err := g.Join(group(MaxGroups), both); !first || err != nil {
		t.Errorf("in the place of one that was left: first %v, %v", first, err)
	}
}
