package qp

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Bounds of the time after which a requester probes.
const (
	leastProbe  = 250 * time.Microsecond
	probeDouble = 8 // at most so often is the time doubled
)

// roundTrip is the time from a request to its acknowledgement, smoothed as RFC
// 6298 does.
type roundTrip struct {
	smoothed, variance time.Duration
	least              time.Duration // 0: none was measured yet
	timing             bool
	psn                ib.PSN // what is timed,
	at                 clock.Instant
	doubled            uint8 // probes that were not answered
}

// begin times the packet at psn, unless another one is.
func (t *roundTrip) begin(psn ib.PSN, now clock.Instant) {
	if !t.timing {
		t.timing, t.psn, t.at = true, psn, now
	}
}

// end is told what is acknowledged.
func (t *roundTrip) end(una ib.PSN, now clock.Instant) {
	t.doubled = 0
	if !t.timing || una.Diff(t.psn) <= 0 {
		return
	}
	t.timing = false
	d := max(now.Sub(t.at), 1)
	if t.least == 0 {
		t.smoothed, t.variance, t.least = d, d/2, d
		return
	}
	t.variance += ((t.smoothed - d).Abs() - t.variance) / 4
	t.smoothed += (d - t.smoothed) / 8
	t.least = min(t.least, d)
}

// timeout returns how long an answer is waited for before a probe.
func (t *roundTrip) timeout() time.Duration {
	return max(2*t.smoothed, t.smoothed+4*t.variance, leastProbe) << t.doubled
}
