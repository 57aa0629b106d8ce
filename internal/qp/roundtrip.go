package qp

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Bounds of the time after which a requester probes. A peer is a program: it
// answers when its processor gets to it, whatever the path takes.
const (
	firstProbe  = 4 * time.Millisecond // before a round trip was measured
	leastProbe  = time.Millisecond
	lateDouble  = 4 // at most so often is the least time doubled,
	probeDouble = 8 // and the time for probes that were not answered
)

const (
	// calmTrips is how many round trips in a row make a peer that was late count
	// as half as late.
	calmTrips = 128
	// lossyTrips is for how many round trips after a loss an acknowledgement that
	// did not come is taken for another one, and not for a late peer.
	lossyTrips = 64
)

// roundTrip is the time from a request to its acknowledgement, smoothed as RFC
// 6298 does, and what follows from it.
type roundTrip struct {
	smoothed, variance time.Duration
	least              time.Duration // 0: none was measured yet
	timing             bool
	psn                ib.PSN // what is timed,
	at                 clock.Instant
	doubled            uint8 // probes that were not answered
	late               uint8 // how often the least time to a probe is doubled
	calm               uint8 // round trips since it was, or was halved
	losses             uint8 // round trips for which a loss is remembered
}

// begin times the packet at psn, unless another one is: then it reports false.
func (t *roundTrip) begin(psn ib.PSN, now clock.Instant) bool {
	if t.timing {
		return false
	}
	t.timing, t.psn, t.at = true, psn, now
	return true
}

// end is told what is acknowledged, and returns the time that the packet took
// that was timed, if it was acknowledged.
func (t *roundTrip) end(una ib.PSN, now clock.Instant) (d time.Duration, timed bool) {
	t.doubled = 0
	if !t.timing || una.Diff(t.psn) <= 0 {
		return 0, false
	}
	t.timing = false
	d = max(now.Sub(t.at), 1)
	t.sample(d)
	return d, true
}

// sample learns from one round trip.
func (t *roundTrip) sample(d time.Duration) {
	d = max(d, 1)
	t.losses -= min(t.losses, 1)
	if t.calm++; t.calm == calmTrips {
		t.calm, t.late = 0, t.late-min(t.late, 1)
	}
	if t.least == 0 {
		t.smoothed, t.variance, t.least = d, d/2, d
		return
	}
	t.variance += ((t.smoothed - d).Abs() - t.variance) / 4
	t.smoothed += (d - t.smoothed) / 8
	t.least = min(t.least, d)
}

// spurious is told that what was taken for lost was not: the peer was late, and
// is waited for longer.
func (t *roundTrip) spurious() {
	t.calm = 0
	t.late = min(t.late+1, lateDouble)
}

// timeout returns how long an answer is waited for before a probe. If it is
// certain that something was lost, the peer has just said so, and is awake.
func (t *roundTrip) timeout(certain bool) time.Duration {
	if t.least == 0 {
		return firstProbe << t.doubled
	}
	least := time.Duration(leastProbe)
	if certain {
		least /= 4
	}
	return max(2*t.smoothed, t.smoothed+4*t.variance, least<<t.late) << t.doubled
}

// tooSoon reports whether what came so long after a packet cannot be the answer to
// it.
func (t *roundTrip) tooSoon(d time.Duration) bool { return d < t.least-t.least/4 }

// queued reports whether most of a round trip is spent in a queue.
func (t *roundTrip) queued() bool { return t.smoothed > 2*t.least }

// settled returns how long after the answer to a probe others of the same time
// have come.
func (t *roundTrip) settled() time.Duration {
	return max(2*t.smoothed, (leastProbe<<t.late)/4)
}
