package hca

import (
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
)

// A UDP socket does not show the IPv4 identification, which the ICRC covers.
// It is derived from the ICRC itself, which a corrupted packet survives one
// time in 65536. Most of what is lost by that comes back by asking whether
// the derived identification is one that this peer would use: senders like
// us number the segments of a run from 0, Linux counts up.

// habit is what is known of one peer's identifications.
type habit struct {
	src     netip.Addr
	dst     netip.Addr
	at      clock.Instant
	last    uint16
	kind    habitKind
	indexed uint8 // packets in a row that fitted each kind
	counted uint8
}

type habitKind uint8

const (
	habitUnknown habitKind = iota
	habitIndexed           // 0 to 63: the place in a run
	habitCounted           // a little after the one before
)

const (
	habitStreak = 16 // packets in a row that make a habit
	maxIndex    = 64 // segments of a run, at most
	countSlack  = 8192
	countPerMS  = 64   // identifications that a host may use up elsewhere in a millisecond
	countBehind = 2048 // a path that delays some packets by milliseconds lets as many overtake them
)

// habits remembers the peers heard last: a direct-mapped table, so that it
// cannot grow. A peer that was displaced is learnt anew.
type habits struct{ slot [256]habit }

// of returns the entry of a peer as it sends to one of our addresses: Linux
// counts for each pair of addresses.
func (t *habits) of(src, dst netip.Addr) *habit {
	b, to := src.As4(), dst.As4()
	h := &t.slot[b[3]^b[2]*31^b[1]*17^b[0]*7^to[3]*13]
	if h.src != src || h.dst != dst {
		*h = habit{src: src, dst: dst}
	}
	return h
}

// expect returns the identification that the peer's next packet most likely
// has, when it is segment k of a datagram.
func (h *habit) expect(k int) uint16 {
	if h.kind == habitCounted {
		return h.last + 1
	}
	return uint16(k)
}

// accept learns from a derived identification and reports whether it fits the
// peer's habit. A habit that is broken is forgotten, so a peer that changed
// loses one packet.
func (h *habit) accept(now clock.Instant, id uint16) bool {
	indexed := id < maxIndex
	window := countSlack + countPerMS*int64(now-h.at)/1e6
	ahead := int64(id - h.last)
	counted := ahead != 0 && (ahead <= window || ahead >= 1<<16-countBehind)
	h.at = now
	if ahead < 1<<15 || h.kind != habitCounted {
		h.last = id
	}
	h.indexed = streak(h.indexed, indexed)
	h.counted = streak(h.counted, counted)
	switch {
	case h.indexed == habitStreak && h.counted == habitStreak: // a counter passes the indices
	case h.indexed == habitStreak:
		h.kind = habitIndexed
	case h.counted == habitStreak:
		h.kind = habitCounted
	case h.kind == habitIndexed && !indexed, h.kind == habitCounted && !counted:
		h.kind = habitUnknown
		return false
	}
	return true
}

// streak counts hits in a row up to habitStreak.
func streak(n uint8, hit bool) uint8 {
	if !hit {
		return 0
	}
	return min(n+1, habitStreak)
}
