package cmtime

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of the histograms.
const (
	longest = 2 * time.Minute // longer times count as this
	digits  = 3
)

// timing collects the times of one step.
type timing struct {
	wall time.Duration // of the step for all connections
	n    int
	max  time.Duration
	min  time.Duration
	h    *hdrhistogram.Histogram // nil until there is a time
}

// add counts one connection's time.
func (t *timing) add(d time.Duration) {
	if t.h == nil {
		t.h = hdrhistogram.New(1, int64(longest), digits)
		t.min = d
	}
	t.n++
	t.max, t.min = max(t.max, d), min(t.min, d)
	// The value is within the bounds of the histogram, so it is taken.
	_ = t.h.RecordValue(min(max(int64(d), 1), int64(longest)))
}

// timings are those of all steps.
type timings [numSteps]timing

// Quantiles are times in microseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// String returns the times for people.
func (q Quantiles) String() string {
	return fmt.Sprintf("p50 %.0f µs, p90 %.0f, p99 %.0f, p99.9 %.0f, max %.0f", q.P50, q.P90, q.P99, q.P999, q.Max)
}

func (t *timing) quantiles() Quantiles {
	if t.h == nil {
		return Quantiles{}
	}
	us := func(q float64) float64 { return float64(t.h.ValueAtQuantile(q)) / 1e3 }
	return Quantiles{us(50), us(90), us(99), us(99.9), microseconds(t.max)}
}

// never is the shortest time of a step that no connection finished, in
// microseconds: what the Linux program starts from.
const never = 1e9

// shortest returns the shortest time in microseconds.
func (t *timing) shortest() float64 {
	if t.n == 0 {
		return never
	}
	return microseconds(t.min)
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
