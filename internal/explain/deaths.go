package explain

import (
	"fmt"
	"time"

	"github.com/softhca/softhca/ib"
)

const (
	// sweep is how often those that hear nothing any more are looked for.
	sweep = time.Second
	// patience is how many times as long as it was silent before its last repeats a
	// requester has to be, and sweep at least, to be taken for one that gave up.
	patience = 4
)

// Idle tells the follower the time while no packet passes: whoever hears nothing
// any more is found by that. It calls Config.Died.
func (f *Follower) Idle(now time.Time) {
	if f.report.Packets == 0 || f.cfg.Died == nil {
		return
	}
	f.sweep(max(now.Sub(f.start), f.now.at))
}

// watch looks for connections that died, after a packet.
func (f *Follower) watch() {
	if c := f.sight.conv; c != nil && !c.told && c.latest.in == f.now && c.latest.rule.Severity == Failed {
		for _, found := range c.findings {
			if found.Rule == c.latest.rule.Name {
				f.died(c, found)
			}
		}
	}
	if f.now.at-f.swept >= sweep {
		f.sweep(f.now.at)
	}
}

// sweep looks for connections of which a side sent again in vain, and is silent.
func (f *Follower) sweep(at time.Duration) {
	f.swept = at
	for e := f.alive.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conversation)
		for side := range c.halves {
			h := &c.halves[side]
			if c.told || at-h.last() < h.patience() {
				continue
			}
			if id, in, detail := c.outcome(side); id < numRules && table[id].Severity == Failed {
				f.died(c, newFinding(c.id, in, id, detail))
			}
		}
	}
}

// died tells of a connection, once.
func (f *Follower) died(c *conversation, found *Finding) {
	c.told = true
	service := c.service.String()
	if c.ends[0].qpn == ib.QPNGSI {
		service = "CM"
	}
	f.cfg.Died(found.verdict(fmt.Sprintf("%s, %s and %s", service, c.ends[0].told(), c.ends[1].told()), f.report.asked))
}

// patience returns how long the half has to be silent to be taken for one that gave up.
func (h *half) patience() time.Duration {
	longest := h.silence
	if h.rnr.on {
		longest = max(longest, ib.RNRTimer(h.timer))
	}
	return max(sweep, patience*longest)
}

// last returns when a half was heard of.
func (h *half) last() time.Duration {
	return max(h.lastSend.at, h.lastGood.at, h.rnr.in.at, h.nak.in.at)
}
