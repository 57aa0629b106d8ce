package qp

import (
	"math"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// An acknowledgement completes every request up to its PSN, so a forged one with a PSN in
// flight loses data in silence. Its message sequence number must fit: the responder has
// completed at least the messages up to that PSN, and no more than were begun (IBA
// 9.7.7.1). A stranger must guess both numbers. This is demanded of a peer whose answers have
// fitted so far.

// misfits is how many answers in a row may fail the check by about the same amount, each the time of a
// challenge after the one before. After that the peer is taken to count in another way, as old
// versions of Linux rxe do, and the check stops until demandAfter answers have fitted again. A
// stranger's guesses are not alike, and come between the answers of a peer that is there.
const misfits = 3

// alike is by how much misfits may differ, beyond the messages in flight.
const alike = 64

// msnPolicy is what a requester demands of the message sequence numbers of its peer.
// Its zero value demands nothing.
type msnPolicy struct {
	streak  uint8  // answers in a row that fit, up to demandAfter
	refused uint8  // answers in a row that were refused and are alike
	off     uint32 // by how much the last one did not fit
	next    clock.Instant
}

// refuses judges an answer with a number msn, which acknowledges the messages up to least, of
// those up to begun, and reports whether it is refused.
func (y *msnPolicy) refuses(now clock.Instant, msn ib.MSN, least, begun uint32) bool {
	switch {
	case fits(msn, least, begun):
		y.refused = 0
		if y.streak < demandAfter {
			y.streak++
		}
		return false
	case y.streak < demandAfter:
		y.streak = 0
		return false
	}
	if y.refused > 0 && now < y.next {
		return true
	}
	off := uint32(msn) - least
	if d := seqDiff(off, y.off); y.refused > 0 && max(d, -d) <= int32((begun-least)&math.MaxInt16)+alike {
		y.refused++
	} else {
		y.refused = 1
	}
	if y.off, y.next = off, now.Add(challengeTime); y.refused == misfits {
		*y = msnPolicy{}
	}
	return true
}

// fits reports whether msn is a count of messages from least on, of which begun were begun.
func fits(msn ib.MSN, least, begun uint32) bool {
	const mask = math.MaxUint32 >> 8
	return (uint32(msn)-least)&mask <= (begun-least)&mask
}
