package eventlog

import (
	"sync/atomic"
	"time"
)

// Events of one sort are logged maxBurst at once, and one in each interval.
const (
	maxBurst = 20
	interval = 100 * time.Millisecond
)

// limit limits the lines of one sort of events. The zero value has logged nothing.
type limit struct {
	next atomic.Int64  // when the allowed lines would be one interval apart
	left atomic.Uint64 // events left out since the last line
}

// take reports whether a line may be logged now, and how many events were left out before it.
func (l *limit) take(now time.Duration) (left uint64, ok bool) {
	for {
		next := l.next.Load()
		from := max(next, int64(now))
		if from-int64(now) > int64((maxBurst-1)*interval) {
			l.left.Add(1)
			return 0, false
		}
		if l.next.CompareAndSwap(next, from+int64(interval)) {
			return l.left.Swap(0), true
		}
	}
}
