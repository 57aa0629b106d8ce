package qp

import (
	"math"

	"github.com/softhca/softhca/ib"
)

// An acknowledgement completes every request up to its PSN, so a forged one with a PSN in
// flight loses data in silence. Its message sequence number must fit: the responder has
// completed at least the messages up to that PSN, and no more than were begun (IBA
// 9.7.7.1). A stranger must guess both numbers. This is demanded of a peer whose answers have
// fitted so far.

// misfits is the number of answers in a row, with none between that fits, after which a
// peer counts differently, and is asked no more until it has shown again that it does not.
// A stranger's misfits come between the peer's own answers.
const misfits = 8

// msnPolicy is what a requester demands of the message sequence numbers of its peer.
// Its zero value demands nothing.
type msnPolicy struct {
	streak  uint8 // answers in a row that fit, up to demandAfter
	refused uint8 // answers in a row that were refused
}

// refuses takes note of whether an answer fits, and reports whether it is refused.
func (y *msnPolicy) refuses(fits bool) bool {
	switch {
	case fits:
		y.refused = 0
		if y.streak < demandAfter {
			y.streak++
		}
		return false
	case y.streak < demandAfter:
		y.streak = 0
		return false
	}
	if y.refused++; y.refused == misfits {
		*y = msnPolicy{}
	}
	return true
}

// fits reports whether msn is a count of messages from least on, of which begun were begun.
func fits(msn ib.MSN, least, begun uint32) bool {
	const mask = math.MaxUint32 >> 8
	return (uint32(msn)-least)&mask <= (begun-least)&mask
}
