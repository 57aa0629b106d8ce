package cm

import (
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// retry is the one timer of a connection: for retransmission, or for the end of
// TIMEWAIT.
type retry struct {
	interval time.Duration
	response uint8 // 5-bit code: time that the active side gives the peer for its answer
	max      uint8 // repetitions
	left     uint8
}

// Bounds of wait times that a peer requests, as 5-bit codes. The maximum, which
// Linux requests in its MRA, keeps a peer from holding memory for hours. The
// minimum, which Linux has too, keeps it from causing immediate retransmission
// or an empty TIMEWAIT.
const (
	minPeerWait = 8  // 1 ms
	maxPeerWait = 24 // 69 s
)

// peerWait returns the time of a 5-bit code that a peer sent.
func peerWait(code uint8) time.Duration {
	return mad.Timeout(max(minPeerWait, min(code, maxPeerWait)))
}

// await sets the timer, with left repetitions.
func (c *Conn) await(now clock.Instant, d time.Duration, left uint8) {
	c.retry.left = left
	c.m.timers.Set(c, now.Add(d))
}

func (c *Conn) stopTimer() { c.m.timers.Remove(c) }

// Advance fires the timers that are due.
func (m *Manager) Advance(now clock.Instant) {
	m.sendLate(now, now)
	for r, ok := m.early.Due(now); ok; r, ok = m.early.Due(now) {
		r.take(now, m)
	}
	for e := m.exams.Due(now); e != nil; e = m.exams.Due(now) {
		e.due(now)
	}
	for c := m.timers.Due(now); c != nil; c = m.timers.Due(now) {
		on := TimerExhausted
		switch {
		case c.state == Timewait:
			on = TimerTimewait
		case c.retry.left > 0:
			on = TimerRetransmit
		}
		_ = c.step(on, &stimulus{now: now}) // only calls are refused
	}
}

// Deadline returns when Advance is next needed; clock.Never when idle.
func (m *Manager) Deadline() clock.Instant {
	return min(m.timers.Next(), m.early.Deadline(), m.exams.Next(), m.lateDue())
}
