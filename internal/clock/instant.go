package clock

import (
	"math"
	"time"
)

// Instant is a point in time: nanoseconds since an origin that the driver or
// the simulator chose.
type Instant int64

// Never is later than every other instant: a timer that is off.
const Never Instant = math.MaxInt64

// Add returns the instant d after t; Never stays Never, and the sum
// saturates there.
func (t Instant) Add(d time.Duration) Instant {
	if t == Never || (d > 0 && t > Never-Instant(d)) {
		return Never
	}
	return t + Instant(d)
}

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// minSpedUp is the shortest time to which SpeedUp shortens one: a peer that is alive answers within it.
const minSpedUp = 20 * time.Millisecond

// SpeedUp returns a time that is a number of times shorter, but not below 20 ms unless it was; 0 or 1: the same time.
func SpeedUp(d time.Duration, times int) time.Duration {
	if times <= 1 {
		return d
	}
	return min(d, max(d/time.Duration(times), minSpedUp))
}
