package channels

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// This file checks upper bounds of delays. An end of a channel with work must hear
// from its peer in time: without faults within two round trips and the longest RNR
// pause, and after the network has healed within all retries of the channel, in case
// its peer is gone, plus the longest probe timeout.
const (
	calmTime  = 4*latency + longestPause
	healTime  = 10 * 16777216 * time.Nanosecond // ten times the local ACK timeout
	probeTime = 16 * time.Millisecond
	// longestPause is the longest RNR time that a program's queue pair requests: RNR
	// timer code 11.
	longestPause = 480 * time.Microsecond
)

// calm reports whether the plan has no faults that cause waits.
func (p *plan) calm() bool {
	return p.loss+p.dup+p.late+p.damage+p.unrest+p.roam+p.forgery == 0
}

// hears records that an answer has arrived, or a request is complete.
func (e *end) hears() { e.since = e.n.w.Now }

// works reports whether the end can make progress.
func (e *end) works() bool {
	return !e.ch.gone && e.eec.State() == ib.RTS && e.peer.eec.State() == ib.RTS
}

// onTime checks that no end of a channel has waited for too long.
func (w *world) onTime() {
	busy := make(map[*end]bool)
	for _, p := range w.programs {
		if len(p.queue) > 0 && p.q.State() == ib.RTS {
			busy[p.queue[0].via] = true
		}
	}
	for _, c := range w.channels {
		for _, e := range c.ends {
			if !busy[e] || !e.works() {
				e.since = w.Now
				continue
			}
			if until := w.latest(e); w.Now > until {
				w.Fail("delay", "adapter %d: EE context %v has work and has heard nothing of its peer since %v, want news by %v", e.n.Index, e.eec.Num(), time.Duration(e.since), time.Duration(until))
			}
		}
	}
}

// latest returns the time by which an end must hear from its peer.
func (w *world) latest(e *end) clock.Instant {
	switch {
	case w.plan.calm():
		return e.since.Add(calmTime)
	case w.Net.IsHealed():
		return max(e.since, w.Net.Healed.Add(lateness)).Add(healTime + probeTime)
	}
	return clock.Never
}
