package qp

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// PeerTable finds the peer of an address.
type PeerTable struct {
	m     map[netip.Addr]*peer
	most  int        // bytes in flight to each
	known peerMemory // of addresses without a queue pair
}

// NewPeerTable returns an empty table of peers to each of which at most
// windowBytes are in flight.
func NewPeerTable(windowBytes int) *PeerTable {
	return &PeerTable{
		m: make(map[netip.Addr]*peer), most: max(windowBytes, minWindow),
		known: peerMemory{m: make(map[netip.Addr]knowledge)},
	}
}

// hold returns the peer at dst and counts a user.
func (t *PeerTable) hold(dst netip.Addr) *peer {
	p := t.m[dst]
	if p == nil {
		p = &peer{dst: dst, buffer: lossLimit{limit: min(initialWindow, t.most), most: t.most}, known: t.known.m[dst]}
		t.m[dst] = p
	}
	p.refs++
	return p
}

// release takes a user back and forgets a peer without users, but not what was
// learnt of it.
func (t *PeerTable) release(p *peer) {
	if p.refs--; p.refs == 0 {
		delete(t.m, p.dst)
		t.known.put(p.dst, p.known)
	}
}

// peerKind is what is known of a peer's ways with packets beyond a gap.
type peerKind uint8

const (
	peerUnknown peerKind = iota
	peerKeeps
	peerDrops
)

// A peer is taken for one that drops what comes beyond a gap for dropsFor. It may
// have run out of memory for a moment, or run other software now; to look again
// costs a round trip. If it has kept before, it is so for doubtFor at first: where
// much is lost, what answers a copy of the missing packet looks the same, and to go
// back costs a window. That a peer keeps needs no such limit: the first repair
// shows when it does not.
const (
	dropsFor = 10 * time.Second
	doubtFor = 10 * time.Millisecond
)

// knowledge is what was learnt of a peer.
type knowledge struct {
	kind  peerKind
	until clock.Instant // it is taken for one that drops
}

// learn returns what is known from now on.
func (k knowledge) learn(now clock.Instant, kind peerKind) knowledge {
	d := dropsFor
	if k.kind == peerKeeps {
		d = doubtFor
	}
	return knowledge{kind, now.Add(d)}
}

// kindAt returns what is still held to be true.
func (k knowledge) kindAt(now clock.Instant) peerKind {
	if k.kind == peerDrops && now >= k.until {
		return peerUnknown
	}
	return k.kind
}

// knownPeers bounds the addresses without a connection of which something is
// remembered.
const knownPeers = 1024

// peerMemory remembers what was learnt of addresses that no queue pair is
// connected to. The newest take the place of the oldest.
type peerMemory struct {
	m     map[netip.Addr]knowledge
	order []netip.Addr // as they came, in a ring
	next  int          // whose place is taken next
}

// put remembers k of an address.
func (t *peerMemory) put(a netip.Addr, k knowledge) {
	if k.kind == peerUnknown {
		return
	}
	if _, ok := t.m[a]; !ok {
		if len(t.order) < knownPeers {
			t.order = append(t.order, a)
		} else {
			delete(t.m, t.order[t.next])
			t.order[t.next] = a
			t.next = (t.next + 1) % knownPeers
		}
	}
	t.m[a] = k
}
