package rdmacm

import (
	"net/netip"
	"testing"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// TestC11_BacklogShares checks that one address cannot have a quarter of a backlog,
// rounded down, unless it is the adapter's own address.
func TestC11_BacklogShares(t *testing.T) {
	own := netip.MustParseAddr("10.0.0.2")
	hog, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for most, share := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 8: 6, maxBacklog: maxBacklog * 3 / 4} {
		b := backlog{most: most}
		fill := func(a netip.Addr) (n int) {
			for b.add(a, own) {
				n++
			}
			return n
		}
		if n := fill(hog); n != share {
			t.Errorf("backlog %d: one address takes %d places, want %d", most, n, share)
		}
		if n := fill(other); n != most-share {
			t.Errorf("backlog %d: another address takes %d places, want %d", most, n, most-share)
		}
		for range share {
			b.remove(hog)
		}
		if n := fill(hog); n != share || b.waiting != most {
			t.Errorf("backlog %d: %d places were given back, want %d; %d wait", most, n, share, b.waiting)
		}
		for range b.from[other] {
			b.remove(other)
		}
		for range share {
			b.remove(hog)
		}
		if n := fill(own); n != most {
			t.Errorf("backlog %d: the adapter's own address takes %d places", most, n)
		}
		for range most {
			b.remove(own)
		}
		if b.waiting != 0 || len(b.from) != 0 {
			t.Errorf("backlog %d: at the end %d wait, of %d addresses", most, b.waiting, len(b.from))
		}
	}
}

// TestC11_BacklogFairness fills a listener's backlog from one host: the numbers of IDs
// and events stay within the host's share, and another host's request is accepted.
func TestC11_BacklogFairness(t *testing.T) {
	n := verbs.NewNetwork()
	hog, other := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.1"}), newHost(t, verbs.Config{Network: n, Addr: "10.0.0.3"})
	b := newHost(t, verbs.Config{Network: n, Addr: "10.0.0.2"})
	const size, share, asked = 8, 6, 20
	l := b.listener(TCP, size)
	var clients []*ID
	for range asked {
		clients = append(clients, withQP(t, hog.resolved(TCP, b.at(port))))
		must.Do(t, clients[len(clients)-1].Connect(nil))
	}
	waitUntil(t, func() bool { return b.counters().Received[0] == asked })
	if b.pending(l) != share || b.m.IDs() != share+1 || b.conns() != share {
		t.Errorf("of one host %d requests wait, with %d IDs and %d connections; want %d", b.pending(l), b.m.IDs(), b.conns(), share)
	}
	honest := withQP(t, other.resolved(TCP, b.at(port)))
	must.Do(t, honest.Connect(nil))
	waitUntil(t, func() bool { return b.pending(l) == share+1 })
	for range share { // the program takes it in its turn
		destroy(t, b.take(EventConnectRequest).ID)
	}
	server := withQP(t, b.take(EventConnectRequest).ID)
	b.quiet("no more than the backlog")
	must.Do(t, server.Accept(nil))
	other.take(EventEstablished)
	b.take(EventEstablished)
	destroy(t, clients...)
	destroy(t, honest, server, l)
}
