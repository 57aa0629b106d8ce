package observe

import (
	"math"
	"time"

	"github.com/softhca/softhca/internal/restrack"
)

// Histogram counts work requests by the time that they took; restrack.BucketBound has the bounds
// of its buckets.
type Histogram [restrack.LatencyBuckets]uint64

// Total returns the number of work requests, as a float64 because the sum of words that another
// process wrote may not fit 64 bits.
func (h *Histogram) Total() (n float64) {
	for _, v := range h {
		n += float64(v)
	}
	return n
}

// Quantile returns the time within which the share p of the work requests completed, from 0 to 1.
// It is interpolated within a bucket; in the last one, which has no bound, it is the least time of
// that bucket. It reports false if there was no work request.
func (h *Histogram) Quantile(p float64) (time.Duration, bool) {
	total := h.Total()
	if total == 0 {
		return 0, false
	}
	rank := min(max(p, 0), 1) * total
	var below float64
	last := 0
	for i, v := range h {
		if v == 0 {
			continue
		}
		last = i
		if below+float64(v) >= rank {
			return within(i, (rank-below)/float64(v)), true
		}
		below += float64(v)
	}
	return within(last, 1), true // rounding: the sum is less than the total
}

// within returns the time at a share of a bucket.
func within(i int, share float64) time.Duration {
	var from time.Duration
	if i > 0 {
		from = restrack.BucketBound(i - 1)
	}
	to := restrack.BucketBound(i)
	if to < 0 {
		return from
	}
	return from + time.Duration(math.Round(share*float64(to-from)))
}
