package qp

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// PeerTable finds the peer of an address.
type PeerTable struct {
	m     map[netip.Addr]*peer
	most  int        // maximum bytes in flight to each
	known peerMemory // of addresses that no queue pair uses
}

// NewPeerTable returns an empty table that allows windowBytes in flight to each
// peer.
func NewPeerTable(windowBytes int) *PeerTable {
	return &PeerTable{
		m: make(map[netip.Addr]*peer), most: max(windowBytes, minWindow),
		known: peerMemory{m: make(map[netip.Addr]knowledge)},
	}
}

// hold returns the peer at dst and counts one more user.
func (t *PeerTable) hold(dst netip.Addr) *peer {
	p := t.m[dst]
	if p == nil {
		p = &peer{dst: dst, buffer: lossLimit{limit: min(initialWindow, t.most), most: t.most}, known: t.known.m[dst]}
		t.m[dst] = p
	}
	p.refs++
	return p
}

// release counts one user less and removes a peer without users, but remembers
// what was learnt about it.
func (t *PeerTable) release(p *peer) {
	if p.refs--; p.refs == 0 {
		delete(t.m, p.dst)
		t.known.put(p.dst, p.known)
	}
}

// peerKind is how a peer treats packets beyond a gap: peerKeeps buffers them
// (selective repeat), peerDrops drops them (go-back-N).
type peerKind uint8

const (
	peerUnknown peerKind = iota
	peerKeeps
	peerDrops
)

// A peer counts as go-back-N for dropsFor; it may only have run out of memory, or
// may run other software later, and testing it again costs one round trip. For a
// peer that was selective-repeat before, the time is doubtFor: under heavy loss,
// the answer to a duplicate of the missing packet looks the same, and going back
// costs a window. Selective repeat needs no time limit: the first repair that fails
// shows the change.
const (
	dropsFor = 10 * time.Second
	doubtFor = 10 * time.Millisecond
)

// knowledge is what was learnt about a peer.
type knowledge struct {
	kind  peerKind
	until clock.Instant // end of peerDrops
}

// learn returns the updated knowledge.
func (k knowledge) learn(now clock.Instant, kind peerKind) knowledge {
	d := dropsFor
	if k.kind == peerKeeps {
		d = doubtFor
	}
	return knowledge{kind, now.Add(d)}
}

// kindAt returns the kind, if it has not expired.
func (k knowledge) kindAt(now clock.Instant) peerKind {
	if k.kind == peerDrops && now >= k.until {
		return peerUnknown
	}
	return k.kind
}

// knownPeers bounds the unused addresses that are remembered.
const knownPeers = 1024

// peerMemory remembers what was learnt about addresses that no queue pair uses.
// The newest replaces the oldest.
type peerMemory struct {
	m     map[netip.Addr]knowledge
	order []netip.Addr // ring in order of insertion
	next  int          // entry to replace next
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
