package flow

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// Retry counts the retries that the verbs allow a sender until it fails, and times them: the retry
// timer after silence, the RNR timer while the peer is not ready.
type Retry struct {
	timer *clock.Instant // the retry timer; the sender owns both
	rnr   *clock.Instant // the RNR timer

	timeout  time.Duration // of the retry timer; 0: never
	speedup  int           // how many times shorter it is after it has expired, until there is progress; 0: as before
	most     uint8         // retries in a row
	mostRNR  uint8         // RNR retries in a row; ib.RNRInfiniteRetry: no limit
	left     uint8         // retries left
	leftRNR  uint8         // RNR retries left
	repeated bool          // packets are repeated, without progress yet
	expired  bool          // the retry timer has expired, without progress yet
	waiting  bool          // nothing is sent until the RNR timer expires
}

// NewRetry returns the retries of a sender, which owns the timers. It allows none.
func NewRetry(timer, rnr *clock.Instant) Retry { return Retry{timer: timer, rnr: rnr} }

// Reset allows no retries.
func (t *Retry) Reset() { *t = NewRetry(t.timer, t.rnr) }

// SetTimeout sets the time of the retry timer, 0 for never. Once it has expired, it is that many times shorter (speedup) until there
// is progress; 0: as long as before.
func (t *Retry) SetTimeout(d time.Duration, speedup int) { t.timeout, t.speedup = d, speedup }

// Expired notes that the retry timer has expired.
func (t *Retry) Expired() { t.expired = true }

// SetRetries allows n retries in a row from now on.
func (t *Retry) SetRetries(n uint8) { t.most, t.left = n, n }

// SetRNRRetries allows n RNR retries in a row from now on.
func (t *Retry) SetRNRRetries(n uint8) { t.mostRNR, t.leftRNR = n, n }

// Stop notes that nothing is in flight.
func (t *Retry) Stop() { t.repeated, t.waiting, t.expired = false, false, false }

// Repeated reports whether packets are repeated without progress yet: a second report of
// a loss is about the same one.
func (t *Retry) Repeated() bool { return t.repeated }

// Waiting reports whether nothing is sent because the peer is not ready.
func (t *Retry) Waiting() bool { return t.waiting }

// Start arms the retry timer (E5).
func (t *Retry) Start(now clock.Instant) {
	if t.timeout == 0 {
		return
	}
	d := t.timeout
	if t.expired {
		d = clock.SpeedUp(d, t.speedup)
	}
	*t.timer = now.Add(d)
}

// Sent arms the retry timer unless it runs.
func (t *Retry) Sent(now clock.Instant) {
	if *t.timer == clock.Never {
		t.Start(now)
	}
}

// Count counts a retry, and reports false if none is left.
func (t *Retry) Count() bool {
	if t.left == 0 {
		return false
	}
	t.left--
	t.repeated = true
	return true
}

// Reload allows all retries again.
func (t *Retry) Reload() { t.left = t.most }

// Restart repeats the packets in flight on another path. It reports false if the peer is not ready: they
// wait for the RNR timer.
func (t *Retry) Restart(now clock.Instant) bool {
	if t.waiting {
		return false
	}
	t.repeated = true
	*t.timer = clock.Never
	t.Start(now)
	return true
}

// Progress notes an acknowledgement: all retries are left again, and the timer starts again if packets
// are outstanding. It reports false during an RNR wait, which goes on.
func (t *Retry) Progress(now clock.Instant, outstanding bool) bool {
	t.repeated, t.expired = false, false
	t.left, t.leftRNR = t.most, t.mostRNR
	if t.waiting {
		return false
	}
	*t.timer = clock.Never
	if outstanding {
		t.Start(now)
	}
	return true
}

// Refused counts an RNR retry and waits for d; it reports false if none is left.
func (t *Retry) Refused(now clock.Instant, d time.Duration) bool {
	if t.mostRNR != ib.RNRInfiniteRetry {
		if t.leftRNR == 0 {
			return false
		}
		t.leftRNR--
	}
	t.waiting = true
	*t.timer, *t.rnr = clock.Never, now.Add(d)
	return true
}

// Ready ends the RNR wait. It reports false if there is none.
func (t *Retry) Ready(now clock.Instant) bool {
	if !t.waiting {
		return false
	}
	t.waiting = false
	t.Start(now)
	return true
}

// Exhausted reports whether a loss, or an RNR NAK, would find no retry left; progress says that it acknowledges
// something.
func (t *Retry) Exhausted(rnr, progress bool) bool {
	left, leftRNR := t.left, t.leftRNR
	if progress {
		left, leftRNR = t.most, t.mostRNR
	}
	switch {
	case t.waiting:
		return false
	case rnr:
		return leftRNR == 0
	default:
		return left == 0 && !t.repeated
	}
}
