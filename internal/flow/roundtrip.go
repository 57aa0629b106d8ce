package flow

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Bounds of the time after which a requester probes. A peer is a program that
// answers when it gets a processor, however short the path is.
const (
	firstProbe  = 4 * time.Millisecond // before the first measurement
	leastProbe  = time.Millisecond
	lateDouble  = 4 // maximum doublings of the minimum probe timeout,
	probeDouble = 8 // and of the timeout, one per unanswered probe
)

const (
	// calmTrips is the number of round trips without a late answer after which
	// the lateness backoff is halved.
	calmTrips = 128
	// lossyTrips is the number of round trips after a loss for which a missing
	// acknowledgement counts as another loss, not as a late peer.
	lossyTrips = 64
)

// RoundTrip is the time from a request to its acknowledgement, smoothed as RFC
// 6298 does, and the timeouts derived from it.
type RoundTrip struct {
	smoothed, variance time.Duration
	least              time.Duration // minimum; 0: not measured yet
	timing             bool
	psn                ib.PSN // packet being timed,
	at                 clock.Instant
	doubled            uint8 // unanswered probes in a row
	late               uint8 // doublings of the minimum probe timeout
	calm               uint8 // round trips since late last changed
	losses             uint8 // round trips left of lossyTrips
}

// Begin starts timing the packet at psn. It reports false if another one is
// being timed.
func (t *RoundTrip) Begin(psn ib.PSN, now clock.Instant) bool {
	if t.timing {
		return false
	}
	t.timing, t.psn, t.at = true, psn, now
	return true
}

// End handles an acknowledgement up to una. If that covers the timed packet, it
// returns its round trip time.
func (t *RoundTrip) End(una ib.PSN, now clock.Instant) (d time.Duration, timed bool) {
	t.doubled = 0
	if !t.timing || una.Diff(t.psn) <= 0 {
		return 0, false
	}
	t.timing = false
	d = max(now.Sub(t.at), 1)
	t.Sample(d)
	return d, true
}

// Sample takes one measured round trip into account.
func (t *RoundTrip) Sample(d time.Duration) {
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

// Spurious notes that a probe was needless, because the peer was only late. The
// probe timeout grows.
func (t *RoundTrip) Spurious() {
	t.calm = 0
	t.late = min(t.late+1, lateDouble)
}

// Timeout returns the time without an answer before a probe. certain: a loss
// was reported, so the peer is awake and answers sooner.
func (t *RoundTrip) Timeout(certain bool) time.Duration {
	if t.least == 0 {
		return firstProbe << t.doubled
	}
	least := time.Duration(leastProbe)
	if certain {
		least /= 4
	}
	return t.OverdueAfter(least<<t.late) << t.doubled
}

// OverdueAfter returns the time, at least least, after which an answer is overdue.
func (t *RoundTrip) OverdueAfter(least time.Duration) time.Duration {
	return max(2*t.smoothed, t.smoothed+4*t.variance, least)
}

// TooSoon reports whether an answer that came d after a packet is too early to be
// its answer.
func (t *RoundTrip) TooSoon(d time.Duration) bool { return d < t.least-t.least/4 }

// Queued reports whether most of a round trip is queueing delay.
func (t *RoundTrip) Queued() bool { return t.smoothed > 2*t.least }

// Settled returns the time after the answer to a probe by which all late
// answers have arrived.
func (t *RoundTrip) Settled() time.Duration {
	return max(2*t.smoothed, (leastProbe<<t.late)/4)
}

// Cancel ends the timing of a packet, whose answer something else holds back.
func (t *RoundTrip) Cancel() { t.timing = false }

// Smoothed returns the smoothed time, 0 before the first measurement.
func (t *RoundTrip) Smoothed() time.Duration { return t.smoothed }

// Least returns the minimum, 0 before the first measurement.
func (t *RoundTrip) Least() time.Duration { return t.least }

// Lossy notes a loss: for some time a missing acknowledgement counts as another one.
func (t *RoundTrip) Lossy() { t.losses = lossyTrips }

// Calm reports whether the last loss was long ago.
func (t *RoundTrip) Calm() bool { return t.losses == 0 }

// Doubtful reports whether the peer has left a probe unanswered since its last answer, or has
// never answered.
func (t *RoundTrip) Doubtful() bool { return t.doubled > 0 || t.least == 0 }

// Unanswered notes that the peer has not answered in time: the probe timeout doubles.
func (t *RoundTrip) Unanswered() { t.doubled = min(t.doubled+1, probeDouble) }
