package hca_test

import (
	"hash/fnv"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/mad"
)

// TestC7_QPNSweep has a stranger who can forge the honest peer's address send REQs with
// one queue pair after another, to make the victim treat its connection as stale. He
// computes the peer's GUID from its address, as everybody can who has no secret; whoever
// does know the GUID needs a service that the victim offers. Then the victim finds out
// that the peer lives. The last row shows that the sweep finds what it looks for.
func TestC7_QPNSweep(t *testing.T) {
	public := func(addr netip.Addr) uint64 {
		b := addr.As16()
		h := fnv.New64a()
		_, _ = h.Write(append(b[:], 0))
		return 0x02<<56 | h.Sum64()&(1<<56-1)
	}
	keyed := func(key byte) func(netip.Addr) uint64 {
		s := identity.Secret{key}
		return func(addr netip.Addr) uint64 { return s.GUID(addr, 0) }
	}
	for _, c := range []struct {
		name      string
		is, guess func(netip.Addr) uint64
		service   mad.ServiceID
		believes  bool // the victim believes each packet
		ends      bool
	}{
		{"a hash without a key", keyed(1), public, siegeService, true, false},
		{"the secret of another user", keyed(1), keyed(2), siegeService, true, false},
		{"no GUID", keyed(1), func(netip.Addr) uint64 { return 0 }, siegeService, true, false},
		{"a service that nobody offers", keyed(1), keyed(1), nobodyService, true, false},
		{"the GUID and a service", public, public, siegeService, false, false},
		{"a victim that believes", public, public, siegeService, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSiege(t, hca.Config{NodeGUID: c.is(rig.Addr(1))}, hca.Config{Settings: qp.Settings{NoChallenge: c.believes}})
			bond := s.link()
			bond.ask()
			s.settle(time.Second)
			if !bond.in(cm.Established) {
				t.Fatal("there is no connection to attack")
			}
			peer, target := s.Sides[0], bond.qp[0].Num()
			for n := range ib.QPN(2048) {
				q := hostileREQ(s, peer.Addr, uint32(0x5eed0000+n))
				q.ServiceID, q.LocalCAGUID, q.LocalQPN = c.service, c.guess(peer.Addr), target-1024+n
				s.forge(peer.Addr, mad.AttrREQ, uint64(n), q)
			}
			s.settle(time.Second)
			if up := bond.in(cm.Established); up == c.ends {
				t.Errorf("the honest connection is up: %v, want %v", up, !c.ends)
			}
		})
	}
}
