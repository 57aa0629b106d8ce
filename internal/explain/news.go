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

// Turn is what has become of a connection that there is news of.
type Turn uint8

// The turns.
const (
	Died   Turn = iota // it failed
	GoesOn             // something that it asked for was refused; it goes on
	Waits              // a message of its connection manager had to be repeated
)

var turnNames = [...]string{"failed now", "refused now, and the connection goes on", "no answer so far"}

// String returns the turn as it is told, such as "failed now".
func (t Turn) String() string { return turnNames[t] }

// News is what is told of a connection while packets pass.
type News struct {
	Turn Turn
	Verdict
}

// Idle tells the follower the time while no packet passes: whoever hears nothing
// any more is found by that. It calls Config.Tell.
func (f *Follower) Idle(now time.Time) {
	if f.report.Packets == 0 || f.cfg.Tell == nil {
		return
	}
	f.sweep(max(now.Sub(f.start), f.now.at))
}

// watch looks for what there is to tell, after a packet.
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

// news tells of a finding that the last packet made, if it is news.
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
	for e := f.order.Front(); e != nil; e = e.Next() {
		l := e.Value.(*link)
		id := l.unanswered()
		if id == numRules || l.log.told || at-l.asked.last.at < l.asked.patience() {
			continue
		}
		f.died(&l.log, newFinding(l.log.id, l.asked.second, id, l.vain()))
	}
}

// died tells of a connection that failed, once.
func (f *Follower) died(c *conversation, found *Finding) {
	c.told = true
	f.tell(c, Died, found)
}

// tell tells of a connection.
func (f *Follower) tell(c *conversation, turn Turn, found *Finding) {
	where := fmt.Sprintf("%v, %v and %v", c.service, c.endOf(0), c.endOf(1))
	if c.ends[0].qpn == ib.QPNGSI {
		where = fmt.Sprintf("CM, %v and %v", c.ends[0].addr, c.ends[1].addr)
	}
	f.cfg.Tell(News{turn, found.verdict(where, f.report.asked)})
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
