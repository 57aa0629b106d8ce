package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
)

// MaxGroups bounds the multicast groups of a port: each needs sockets and
// filters of the system.
const MaxGroups = 64

// Groups counts the users of each multicast group of a port. The zero value
// is empty. Not safe for concurrent use.
type Groups struct{ users map[netip.Addr]int }

// Join counts one more user of a group of a port with the given addresses and
// reports whether it is the first. The errors are those of Port.Join.
func (g *Groups) Join(a netip.Addr, own []netip.Addr) (first bool, err error) {
	switch {
	case !a.IsMulticast() || a.Is4In6() || a.Zone() != "":
		return false, fmt.Errorf("%v is not a multicast group: %w", a, ib.EINVAL)
	case !slices.ContainsFunc(own, func(o netip.Addr) bool { return o.Is4() == a.Is4() }):
		return false, fmt.Errorf("no address of the port is of the family of %v: %w", a, ib.EADDRNOTAVAIL)
	case g.users[a] == 0 && len(g.users) == MaxGroups:
		return false, fmt.Errorf("the port is in %d multicast groups, the most it can be in: %w", MaxGroups, ib.ENOMEM)
	case g.users == nil:
		g.users = make(map[netip.Addr]int)
	}
	g.users[a]++
	return g.users[a] == 1, nil
}

// Leave removes one user of a group and reports whether it was the last. It
// fails with EINVAL if the group has none.
func (g *Groups) Leave(a netip.Addr) (last bool, err error) {
	switch g.users[a] {
	case 0:
		return false, fmt.Errorf("the port is not in %v: %w", a, ib.EINVAL)
	case 1:
		delete(g.users, a)
		return true, nil
	}
	g.users[a]--
	return false, nil
}
