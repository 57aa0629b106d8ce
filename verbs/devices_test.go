package verbs

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestGIDIndexIsNotLinkLocal checks which GID of an adapter is returned for peers
// beyond the link.
func TestGIDIndexIsNotLinkLocal(t *testing.T) {
	gid := func(s string) ib.GID { return ib.GIDFromAddr(netip.MustParseAddr(s)) }
	for _, c := range []struct {
		gids []ib.GID
		want int
	}{
		{[]ib.GID{gid("fe80::1"), gid("fe80::2"), gid("10.0.0.1")}, 2},
		{[]ib.GID{gid("fe80::1"), gid("2001:db8::1")}, 1},
		{[]ib.GID{gid("10.0.0.1"), gid("fe80::1")}, 0},
		{[]ib.GID{gid("fe80::1")}, 0},
	} {
		if got := (DeviceInfo{GIDs: c.gids}).GIDIndex(); got != c.want {
			t.Errorf("of %v index %d is offered, want %d", c.gids, got, c.want)
		}
	}
}
