package qp

import "math"

// The ICRC covers the IPv4 identification. Where the port does not show it, it
// is derived from the ICRC, and one damaged packet in 65536 passes with an
// arbitrary one. A peer on a UDP socket, such as another adapter of this kind,
// numbers the segments of each run from 0: of what is damaged and passes, all
// but one in 1024 shows by an identification that such a peer does not use.
//
// Whoever sends from a UDP socket chooses the identification through the ICRC,
// and strangers may do so in the peer's name. So what is known of the peer comes
// from packets that the peer's are told by, at the PSN that is expected and in
// answer to what is in flight, and it is asked for nowhere else: a duplicate or
// a packet beyond a gap does no harm, and is not judged. No more than the
// segment index is ever demanded. A counter cannot be: on Linux, any process of
// the peer's host moves it.
//
// The peer may change its ways at any time, and a connection must not fail for
// it. The first packet that is refused ends the demand, so that it passes when
// it is sent again, and the next demand takes as many packets as the first. UC
// goes on wherever a packet leads it, so there a stranger may be at the PSN that
// is expected: the peer's next packet is not, ends what the stranger has taught,
// and is not judged.

const (
	// runSegments bounds the segments of a run.
	runSegments = 64
	// demandAfter is the number of packets in a row with a segment index after
	// which one is demanded. A counter has no more than runSegments in a row.
	demandAfter = math.MaxUint8
)

// ipidPolicy is what a queue pair of a connected service asks of its peer's
// identifications. Its zero value asks nothing.
type ipidPolicy struct {
	streak uint8 // packets in a row with a segment index, up to demandAfter
}

// learn takes note of a packet that the peer is known by.
func (y *ipidPolicy) learn(p *Packet) {
	switch {
	case !p.IDDerived:
	case p.ID >= runSegments:
		y.streak = 0
	case y.streak < demandAfter:
		y.streak++
	}
}

// refuses reports whether a packet is to be taken for damaged. It asks no more
// then, until it has learnt anew.
func (y *ipidPolicy) refuses(p *Packet) bool {
	refused := y.suspects(p)
	if refused {
		y.streak = 0
	}
	return refused
}

// suspects reports whether a packet that is not at the expected PSN would be
// refused there.
func (y *ipidPolicy) suspects(p *Packet) bool {
	return p.IDDerived && p.ID >= runSegments && y.streak == demandAfter
}
