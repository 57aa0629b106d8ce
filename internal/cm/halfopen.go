package cm

import "github.com/softhca/softhca/internal/clock"

// admit counts a connection that a peer asks for, and reports false if there
// are too many already, of this peer or of all. Of all, the one whose peer has
// been silent longest gives way: otherwise whoever sends a few REQs in the name
// of hosts that are not there keeps everybody out until their retries, as many
// and as slow as he likes, are spent.
func (m *Manager) admit(now clock.Instant, c *Conn) bool {
	l, from := &m.cfg.Limits, c.to.Remote
	if m.half[from] >= max(l.MaxHalfOpen*3/4, 1) {
		return false
	}
	if (m.Conns() >= l.MaxConns || m.halfOpen >= l.MaxHalfOpen) && !m.giveWay(now) {
		return false
	}
	m.halfOpen++
	m.half[from]++
	c.counted = true
	return true
}

// giveWay ends the half-open connection whose peer has been silent longest, as
// if its timer had fired for the last time. It reports false if there is none:
// what waits for the consumer waits on.
func (m *Manager) giveWay(now clock.Instant) bool {
	c := m.silent.oldest
	if c == nil {
		return false
	}
	on := TimerSpent
	if c.state == Timewait {
		on = TimerQuiet
	}
	m.counters.GivenUp++
	_ = c.step(on, &stimulus{now: now}) // only calls are refused
	return true
}

// whole counts a connection no more among the half-open, and lets another one
// wait in its listener's backlog.
func (m *Manager) whole(c *Conn) {
	if !c.counted {
		return
	}
	c.counted = false
	m.silent.remove(c)
	m.halfOpen--
	if m.half[c.to.Remote]--; m.half[c.to.Remote] == 0 {
		delete(m.half, c.to.Remote)
	}
}

// silentList holds the half-open connections that wait for their peer: for
// RTU, or in Timewait. Those that wait longest come first.
type silentList struct{ oldest, newest *Conn }

// add puts a connection at the end, wherever it was.
func (l *silentList) add(c *Conn) {
	l.remove(c)
	if c.older = l.newest; c.older == nil {
		l.oldest = c
	} else {
		c.older.newer = c
	}
	l.newest = c
}

// remove takes a connection out, if it is there.
func (l *silentList) remove(c *Conn) {
	switch {
	case c.older != nil:
		c.older.newer = c.newer
	case l.oldest == c:
		l.oldest = c.newer
	default:
		return
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		l.newest = c.older
	}
	c.older, c.newer = nil, nil
}
