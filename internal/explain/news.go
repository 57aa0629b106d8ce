package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/softhca/softhca/ib"
)

const (
	// sweep is the interval of searches for requesters that have given up.
	sweep = time.Second
	// silenceFactor times the silence before its last repeats, and at least sweep, is the
	// silence after which a requester counts as having given up.
	silenceFactor = 4
)

// Turn is the kind of news about a connection.
type Turn uint8

// The turns.
const (
	Died    Turn = iota // it failed
	GoesOn              // a request of its connection manager was refused; the connection continues
	Waits               // a message of its connection manager had to be repeated
	Revived             // an answer refuted the NAK by which it seemed to fail
)

var turnNames = [...]string{"failed now", "refused now, and the connection goes on", "no answer so far", "did not fail"}

// String returns the turn in words, such as "failed now".
func (t Turn) String() string { return turnNames[t] }

// News is a report about a connection while packets pass.
type News struct {
	Turn Turn
	Verdict
}

// Idle passes the time to the follower while no packet passes, so that it finds
// connections without answers. It calls Config.Tell.
func (f *Follower) Idle(now time.Time) {
	if f.report.Packets == 0 || f.cfg.Tell == nil {
		return
	}
	f.sweep(max(now.Sub(f.start), f.now.at))
}

// watch reports news after a packet.
func (f *Follower) watch() {
	if c := f.sight.conv; c != nil && c.latest.in == f.now {
		for _, found := range c.findings {
			if found.Rule == c.latest.rule.Name {
				f.news(c, found)
			}
		}
	}
	if f.now.at-f.swept >= sweep {
		f.sweep(f.now.at)
	}
}

// news reports a finding of the last packet if it is news.
func (f *Follower) news(c *conversation, found *Finding) {
	switch found.id {
	case cmAlternateRefused:
		if found.Count == 1 {
			f.tell(c, GoesOn, found)
		}
	case cmREQRepeated, sidrRepeated, cmDREQRepeated:
		if !c.waits {
			c.waits = true
			f.tell(c, Waits, found)
		}
	default:
		if found.Severity == Failed && !c.told {
			f.died(c, found)
		}
	}
}

// sweep finds connections with a side that repeated without an answer and is silent now.
func (f *Follower) sweep(at time.Duration) {
	f.swept = at
	for e := f.alive.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conversation)
		for side := range c.halves {
			h := &c.halves[side]
			if c.told || at-h.last() < h.overdueAfter() {
				continue
			}
			if id, in, detail := c.outcome(side); id < numRules && table[id].Severity == Failed {
				f.died(c, newFinding(c.id, in, id, detail))
			}
		}
	}
	for e := f.order.Front(); e != nil; e = e.Next() {
		l := e.Value.(*link)
		id := l.unanswered()
		if id == numRules || l.log.told || at-l.asked.last.at < l.asked.overdueAfter() {
			continue
		}
		f.died(&l.log, newFinding(l.log.id, l.asked.second, id, l.vain()))
	}
}

// died reports a connection that failed.
func (f *Follower) died(c *conversation, found *Finding) {
	c.told = true
	f.tell(c, Died, found)
}

// revive reports that a connection did not fail, if it was reported as failed.
func (c *conversation) revive(f *Follower) {
	if c.told && f.cfg.Tell != nil {
		i := slices.IndexFunc(c.findings, func(g *Finding) bool { return g.id == nakRefuted })
		f.tell(c, Revived, c.findings[i])
	}
	c.told = false
}

// tell reports news about a connection.
func (f *Follower) tell(c *conversation, turn Turn, found *Finding) {
	where := fmt.Sprintf("%v, %v and %v", c.service, c.endOf(0), c.endOf(1))
	if c.ends[0].qpn == ib.QPNGSI {
		where = fmt.Sprintf("CM, %v and %v", c.ends[0].addr, c.ends[1].addr)
	}
	f.cfg.Tell(News{turn, found.verdict(where, f.report.asked)})
}

// overdueAfter returns the silence after which the half counts as having given up.
func (h *half) overdueAfter() time.Duration {
	longest := h.silence
	if h.rnr.on {
		longest = max(longest, ib.RNRTimer(h.timer))
	}
	return max(sweep, silenceFactor*longest)
}

// last returns the time of the last packet of a half or to it.
func (h *half) last() time.Duration {
	return max(h.lastSend.at, h.lastGood.at, h.rnr.in.at, h.nak.in.at)
}
