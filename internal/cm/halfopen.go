package cm

import "github.com/softhca/softhca/internal/clock"

// admit counts a connection that a peer asks for, and reports false if there
// are too many already, of this peer or of all. Of all, the one whose peer has
// been silent longest gives way: otherwise whoever sends a few REQs in the name
// of hosts that are not there keeps everybody out until their retries, as many
// and as slow as he likes, are spent.
func (m *Manager) admit(now clock.Instant, c *Conn) bool {
	most, from := m.cfg.Limits.MaxHalfOpen, c.to.Remote
	if m.half[from] >= max(most*3/4, 1) {
		return false
	}
	if m.halfOpen >= most {
		m.evict(now, m.evictHalfOpen.oldest)
	}
	if m.halfOpen >= most || !m.makeRoom(now) {
		return false
	}
	m.halfOpen++
	m.half[from]++
	c.halfOpen = true
	return true
}

// makeRoom makes sure that there may be one more connection, and reports false
// if there may not. The first to give way is the one that is in Timewait
// longest: for how long is a wish of its peer's.
func (m *Manager) makeRoom(now clock.Instant) bool {
	full := m.Conns() >= m.cfg.Limits.MaxConns
	if full && m.evictTimewait.oldest != nil {
		m.evict(now, m.evictTimewait.oldest)
	} else if full {
		m.evict(now, m.evictHalfOpen.oldest)
	}
	return m.Conns() < m.cfg.Limits.MaxConns
}

// evict ends a connection that waits for nothing but its peer, as if its timer
// had fired for the last time. Without one nothing happens: what waits for the
// consumer waits on. What the consumer does about it gives up nothing more, or
// there would be no end to it.
func (m *Manager) evict(now clock.Instant, c *Conn) {
	if c == nil || m.evicting {
		return
	}
	on := TimerExhausted
	if c.state == Timewait {
		on = TimerTimewait
	}
	m.counters.GivenUp++
	m.evicting = true
	_ = c.step(on, &stimulus{now: now}) // only calls are refused
	m.evicting = false
}

// leaveHalfOpen counts a connection no more among the half-open.
func (m *Manager) leaveHalfOpen(c *Conn) {
	if !c.halfOpen {
		return
	}
	m.evictHalfOpen.remove(c)
	c.halfOpen = false
	m.halfOpen--
	if m.half[c.to.Remote]--; m.half[c.to.Remote] == 0 {
		delete(m.half, c.to.Remote)
	}
}

// evictable returns the list for a connection that waits for its peer.
func (m *Manager) evictable(c *Conn) *evictionList {
	if c.halfOpen {
		return &m.evictHalfOpen
	}
	return &m.evictTimewait
}

// evictionList is a list of connections that wait for their peer, or for the end
// of Timewait. Those that wait longest come first.
type evictionList struct{ oldest, newest *Conn }

// add puts a connection at the end, wherever it was.
func (l *evictionList) add(c *Conn) {
	l.remove(c)
	if c.older = l.newest; c.older == nil {
		l.oldest = c
	} else {
		c.older.newer = c
	}
	l.newest = c
}

// remove takes a connection out, if it is there.
func (l *evictionList) remove(c *Conn) {
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
