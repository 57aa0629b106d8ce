package top

import (
	"math"
	"time"
)

// keptSeconds is how far a history goes back.
const keptSeconds = 60

// history contains the mean rate of each of the last seconds. The newest second is not complete.
type history struct {
	newest int64 // its number since 1970
	sums   [keptSeconds + 1]float32
	begun  bool
}

// at returns the place of a second.
func (h *history) at(second int64) *float32 {
	n := int64(len(h.sums))
	return &h.sums[((second%n)+n)%n]
}

// add adds the rate from one time to another, which is not before the last one of the call before.
func (h *history) add(from, to time.Time, rate float64) {
	last := to.Unix()
	if !h.begun || last < h.newest || last-h.newest > keptSeconds {
		*h = history{newest: max(from.Unix(), last-keptSeconds), begun: true}
	}
	for h.newest < last {
		h.newest++
		*h.at(h.newest) = 0
	}
	for s := max(from.Unix(), last-keptSeconds); s <= last; s++ {
		begin, end := time.Unix(s, 0), time.Unix(s+1, 0)
		if from.After(begin) {
			begin = from
		}
		if to.Before(end) {
			end = to
		}
		*h.at(s) += float32(rate * max(end.Sub(begin).Seconds(), 0))
	}
}

// last returns the means of n equal parts of the last minute, the oldest first.
func (h *history) last(n int) []float64 {
	n = min(max(n, 1), keptSeconds)
	parts := make([]float64, n)
	if h == nil || !h.begun {
		return parts
	}
	for i := range parts {
		from, to := i*keptSeconds/n, (i+1)*keptSeconds/n
		var sum float64
		for s := from; s < to; s++ {
			sum += float64(*h.at(h.newest - keptSeconds + int64(s)))
		}
		parts[i] = sum / float64(to-from)
	}
	return parts
}

// levels are the characters of a sparkline, from nothing to the maximum; the drawing without
// Unicode replaces them (see ascii).
const levels = " ▁▂▃▄▅▆▇█"

// sparkline returns values as a line of characters, relative to their maximum.
func sparkline(values []float64) string {
	steps := []rune(levels)
	var most float64
	for _, v := range values {
		most = max(most, v)
	}
	line := make([]rune, len(values))
	for i, v := range values {
		line[i] = steps[0]
		if v > 0 {
			line[i] = steps[min(int(math.Ceil(v/most*float64(len(steps)-1))), len(steps)-1)]
		}
	}
	return string(line)
}
