package flow

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// InFlight estimates delivery while a gap blocks cumulative ACKs: a
// selective-repeat peer still takes packets beyond the gap out of its socket
// buffer, one round trip after they were sent. The packets between two PSNs,
// sent over the last round trip, count as delivered evenly over the next one.
// The zero value estimates nothing.
type InFlight struct {
	from, to ib.PSN
	at       clock.Instant
	over     time.Duration // 0: nothing lands
}

// inFlightSteps is the number of steps in which a window of packets counts as
// delivered.
const inFlightSteps = 8

// NewInFlight returns the estimate for the packets between two PSNs, which count as delivered over
// a time that begins now.
func NewInFlight(from, to ib.PSN, now clock.Instant, over time.Duration) InFlight {
	return InFlight{from, to, now, over}
}

// At returns the first packet that does not count as delivered now, and when to ask again. landed
// is the result of the last call, or a later packet.
func (l *InFlight) At(now clock.Instant, landed ib.PSN) (psn ib.PSN, next clock.Instant) {
	if l.over <= 0 || l.to.Diff(landed) <= 0 {
		return landed, clock.Never
	}
	all, passed := time.Duration(l.to.Distance(l.from)), min(now.Sub(l.at), l.over)
	psn, next = l.from.Add(uint32(all*passed/l.over)), clock.Never
	if passed < l.over {
		next = now.Add(max(l.over/inFlightSteps, 1))
	}
	return psn, next
}
