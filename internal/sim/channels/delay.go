package channels

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// The oracle's "no later than". An end of a channel that has work hears of its peer
// again in time: where nothing troubles the network, within two round trips and the
// longest pause that a peer asks for; and once the network is healed, within all
// retries of the channel, in case its peer is gone, and the longest time to a probe.
const (
	calmTime  = 4*latency + longestPause
	healTime  = 10 * 16777216 * time.Nanosecond // ten times the local ACK timeout
	probeTime = 16 * time.Millisecond
	// longestPause is the longest that a program's queue pair asks peers to wait for
	// a receive: RNR timer code 11.
	longestPause = 480 * time.Microsecond
)

// calm reports whether nothing in the plan makes anybody wait.
func (p *plan) calm() bool {
	return p.loss+p.dup+p.late+p.damage+p.unrest+p.roam+p.forgery == 0
}

// hears notes that an answer has arrived, or a request is complete.
func (e *end) hears() { e.since = e.n.w.now }

// works reports whether the end is one whose work goes on.
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
				e.since = w.now
				continue
			}
			if until := w.latest(e); w.now > until {
				w.fail("delay", "adapter %d: EE context %v has work and has heard nothing of its peer since %v, want news by %v", e.n.index, e.eec.Num(), time.Duration(e.since), time.Duration(until))
			}
		}
	}
}

// latest returns until when an end must hear something.
func (w *world) latest(e *end) clock.Instant {
	switch {
	case w.plan.calm():
		return e.since.Add(calmTime)
	case w.healed:
		return max(e.since, w.healedAt.Add(lateness)).Add(healTime + probeTime)
	}
	return clock.Never
}
