package perf

import (
	"context"
	"time"
)

// Interval is the progress of about a second.
type Interval struct {
	Elapsed  time.Duration // since the start
	Messages uint64        // of the interval
	Gbps     float64       // of payload
	Mpps     float64       // messages, in millions a second
}

// tick is how often a measurement looks whether it is called off.
const tick = 50 * time.Millisecond

// meter counts messages and knows the time.
type meter struct {
	size     int // bytes of a message
	report   func(Interval)
	start    time.Time
	end      time.Time // when to stop
	stopped  time.Time // when the last message was complete
	nextTick time.Time
	since    time.Time // start of the interval
	before   uint64    // messages before it
	messages uint64
	progress time.Time // when a message was last known to be complete
}

func newMeter(p *Plan, report func(Interval)) *meter {
	return &meter{size: p.Size, report: report}
}

// begin starts the clock.
func (m *meter) begin(d time.Duration) {
	m.start = time.Now()
	m.progress = m.start
	m.since, m.nextTick, m.end = m.start, m.start.Add(tick), m.start.Add(d)
}

// running reports whether more is to be measured. It reports progress, and
// fails when ctx has ended.
func (m *meter) running(ctx context.Context) (bool, error) {
	now := time.Now()
	if now.Before(m.nextTick) {
		return now.Before(m.end), nil
	}
	m.nextTick = now.Add(tick)
	if d := now.Sub(m.since); d >= time.Second {
		n := m.messages - m.before
		if m.report != nil {
			m.report(Interval{now.Sub(m.start), n, m.gbps(n, d), rate(n, d)})
		}
		m.since, m.before = now, m.messages
	}
	return now.Before(m.end), ctx.Err()
}

// stop ends the measurement: every message is complete.
func (m *meter) stop() { m.stopped = time.Now() }

// rate returns millions a second.
func rate(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds() / 1e6
}

// gbps returns the payload of n messages in 10^9 bits a second.
func (m *meter) gbps(n uint64, d time.Duration) float64 {
	return rate(n, d) * float64(m.size) * 8 / 1e3
}
