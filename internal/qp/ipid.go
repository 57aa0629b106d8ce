package qp

import "math"

// The ICRC covers the IPv4 identification. If the port does not show it, it is
// derived from the ICRC, and one damaged packet in 65536 passes with an
// arbitrary identification. A peer on a UDP socket, such as another adapter of
// this kind, numbers the segments of each run from 0, so only one in 1024 of
// these packets has an identification that such a peer uses; the others are
// detected.
//
// A sender on a UDP socket can choose the identification through the ICRC, and
// strangers can do so in the peer's name. So the policy learns only from packets
// that are likely the peer's: requests at the expected PSN and answers to
// requests in flight. It judges only those too: a duplicate or a packet beyond a
// gap does no harm. The policy demands only the segment index, never a counter,
// which any process of the peer's host can advance on Linux.
//
// The peer may change how it numbers packets at any time, and the connection
// must survive that. The first refused packet ends the demand, so its
// retransmission passes, and the policy learns anew before the next demand. UC
// accepts a request at any PSN, so there a stranger can be at the expected PSN.
// The peer's next packet then is not; it resets what the policy has learnt, and
// is not judged.

const (
	// runSegments bounds the segments of a run.
	runSegments = 64
	// demandAfter is the number of consecutive packets with a segment index
	// after which the policy demands one. A counter yields at most runSegments
	// in a row.
	demandAfter = math.MaxUint8
)

// ipidPolicy checks the identifications of a connected peer's packets. Its zero
// value demands nothing.
type ipidPolicy struct {
	streak uint8 // packets in a row with a segment index, up to demandAfter
}

// learn takes a packet that is likely the peer's into account.
func (y *ipidPolicy) learn(p *Packet) {
	switch {
	case !p.IDDerived:
	case p.ID >= runSegments:
		y.streak = 0
	case y.streak < demandAfter:
		y.streak++
	}
}

// refuses reports whether a packet counts as damaged. A refusal ends the demand
// until the policy has learnt anew.
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

// refusesID reports whether the identification of a packet at a PSN that only the peer should know shows
// damage.
func (e *endpoint) refusesID(p *Packet) bool { return e.ipid.refuses(p) }

// suspectsID reports whether refusesID would refuse a packet, without counting it.
func (e *endpoint) suspectsID(p *Packet) bool { return e.ipid.suspects(p) }

// learnID takes the identification of a packet into account that was believed.
func (e *endpoint) learnID(p *Packet) { e.ipid.learn(p) }
