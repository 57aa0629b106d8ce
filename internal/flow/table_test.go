package flow

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// TestL2_KnownPeers shows that the table of known peers is bounded, that the
// newest entries stay, and that a go-back-N peer is tested again after a time.
func TestL2_KnownPeers(t *testing.T) {
	addr := func(i int) netip.Addr {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(10<<24+i))
		return netip.AddrFrom4(b)
	}
	peers := NewTable(0)
	visit := func(i int, k Kind) Kind {
		w := peers.hold(addr(i))
		known := w.known.KindAt(0)
		if k != Unknown {
			w.known = Knowledge{k, clock.Never}
		}
		peers.release(w)
		return known
	}
	for i := range 3 * knownPeers {
		if got := visit(i, SelectiveRepeat); got != Unknown {
			t.Fatalf("of a new address %v is known", got)
		}
	}
	visit(5*knownPeers, Unknown) // addresses without an entry
	if n := len(peers.known.m); n != knownPeers || len(peers.known.order) != knownPeers || len(peers.m) != 0 {
		t.Errorf("%d addresses are remembered, in %d places, want %d", n, len(peers.known.order), knownPeers)
	}
	if got := visit(3*knownPeers-1, GoBackN); got != SelectiveRepeat {
		t.Errorf("of the newest address %v is known", got)
	}
	if got := visit(3*knownPeers-1, Unknown); got != GoBackN {
		t.Errorf("of an address that changed %v is known", got)
	}
	if got := visit(2*knownPeers, Unknown); got != SelectiveRepeat {
		t.Errorf("of the oldest that has a place %v is known", got)
	}
	if got := visit(2*knownPeers-1, Unknown); got != Unknown {
		t.Errorf("of an address whose place was taken %v is known", got)
	}

	at := clock.Instant(time.Hour)
	for _, c := range []struct {
		before, k Kind
		d         time.Duration
		want      Kind
	}{
		{Unknown, GoBackN, dropsFor - 1, GoBackN}, {Unknown, GoBackN, dropsFor, Unknown},
		{SelectiveRepeat, GoBackN, doubtFor - 1, GoBackN}, {SelectiveRepeat, GoBackN, doubtFor, Unknown},
		{GoBackN, GoBackN, dropsFor - 1, GoBackN}, {Unknown, SelectiveRepeat, 1000 * dropsFor, SelectiveRepeat},
	} {
		k := Knowledge{}.Learn(at, c.before).Learn(at, c.k)
		if got := k.KindAt(at.Add(c.d)); got != c.want {
			t.Errorf("of a peer of kind %v, which was %v, %v is known %v later, want %v", c.k, c.before, got, c.d, c.want)
		}
	}
}
