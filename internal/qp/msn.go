package qp

import (
	"math"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// An acknowledgement completes every request up to its PSN, so a forged one with a PSN in
// flight loses data in silence. Its message sequence number must fit: the responder has
// completed at least the messages up to that PSN, and no more than were begun (IBA 9.7.7.1).
// A stranger must guess both numbers. The check applies to a peer whose answers have fitted
// so far.

// misfits is how many answers in a row may fail the check by about the same amount, with at least
// the time of a challenge between two of them. Then the peer is assumed to count differently, as
// old versions of Linux rxe do, and the check pauses until demandAfter answers have fitted again. A
// stranger's guesses differ from each other, and a live peer's answers come between them.
const misfits = 3

// alike is the maximum difference between misfits, in addition to the messages
// in flight.
const alike = 64

// msnPolicy checks the message sequence numbers of the peer's answers. Its zero
// value demands nothing.
type msnPolicy struct {
	streak  uint8  // answers in a row that fit, up to demandAfter
	refused uint8  // refused answers in a row with similar errors
	off     uint32 // error of the last one
	next    clock.Instant
}

// refuses reports whether to refuse an answer with number msn that acknowledges the messages
// up to least, when the messages up to begun have started.
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

// fits reports whether msn lies between least and begun.
func fits(msn ib.MSN, least, begun uint32) bool {
	const mask = math.MaxUint32 >> 8
	return (uint32(msn)-least)&mask <= (begun-least)&mask
}
