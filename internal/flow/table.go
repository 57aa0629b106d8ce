package flow

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
)

// Table finds the peer of an address.
type Table struct {
	m     map[netip.Addr]*peer
	most  int    // maximum bytes in flight to each
	known memory // of addresses that no queue pair uses
}

// NewTable returns an empty table that allows windowBytes in flight to each
// peer.
func NewTable(windowBytes int) *Table {
	return &Table{
		m: make(map[netip.Addr]*peer), most: max(windowBytes, minWindow),
		known: memory{m: make(map[netip.Addr]Knowledge)},
	}
}

// hold returns the peer at dst and counts one more user.
func (t *Table) hold(dst netip.Addr) *peer {
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
func (t *Table) release(p *peer) {
	if p.refs--; p.refs == 0 {
		delete(t.m, p.dst)
		t.known.put(p.dst, p.known)
	}
}

// Kind is how a peer treats packets beyond a gap.
type Kind uint8

// The kinds of peers.
const (
	Unknown         Kind = iota
	SelectiveRepeat      // buffers them: selective repeat
	GoBackN              // drops them: go-back-N
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

// Knowledge is what was learnt about a peer.
type Knowledge struct {
	kind  Kind
	until clock.Instant // end of Drops
}

// Learn returns the updated Knowledge.
func (k Knowledge) Learn(now clock.Instant, kind Kind) Knowledge {
	d := dropsFor
	if k.kind == SelectiveRepeat {
		d = doubtFor
	}
	return Knowledge{kind, now.Add(d)}
}

// KindAt returns the kind, if it has not expired.
func (k Knowledge) KindAt(now clock.Instant) Kind {
	if k.kind == GoBackN && now >= k.until {
		return Unknown
	}
	return k.kind
}

// knownPeers bounds the unused addresses that are remembered.
const knownPeers = 1024

// memory remembers what was learnt about addresses that no queue pair uses.
// The newest replaces the oldest.
type memory struct {
	m     map[netip.Addr]Knowledge
	order []netip.Addr // ring in order of insertion
	next  int          // entry to replace next
}

// put remembers k of an address.
func (t *memory) put(a netip.Addr, k Knowledge) {
	if k.kind == Unknown {
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
