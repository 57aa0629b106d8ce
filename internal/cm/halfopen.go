package cm

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
)

// overdue is how long a peer may take for its RTU before its connection gives way to another
// one of the same address: longer than a round trip and a turn of the peer's scheduler.
const overdue = 100 * time.Millisecond

// admit counts a connection that a peer asks for, and reports false if there are too many
// already: of this address, of this listener, or of all. A peer that was accepted and is
// silent gives way, the oldest of the address that has the most: neither a few REQs in the
// name of hosts that are not there, nor any number in the name of one, keep others out until
// their retries, as many and as slow as their sender likes, are spent.
func (m *Manager) admit(now clock.Instant, c *Conn) bool {
	most, from := m.cfg.Limits.MaxHalfOpen, c.to.Remote
	own := m.silent[silentKey{c.listener, from}]
	if m.half[from] >= max(most*3/4, 1) {
		own.evictOverdue(now)
	}
	if m.half[from] >= max(most*3/4, 1) || !c.listener.makeRoom(now, own) {
		return false
	}
	if m.halfOpen >= most {
		evictLargest(now, m)
	}
	if m.halfOpen >= most || !m.makeRoom(now) {
		return false
	}
	m.halfOpen++
	m.half[from]++
	c.halfOpen = true
	return true
}

// makeRoom makes sure that the consumer of the listener may accept another connection, and
// reports false if it may not: then the peer asks again. own is the group of that peer. Many
// peers that connect at once are no attack, so an address that has no more than the peer's
// own gives up only what is overdue.
func (l *Listener) makeRoom(now clock.Instant, own *silentGroup) bool {
	for l.MaxSilent > 0 && l.silent >= l.MaxSilent {
		before, has := l.silent, 0
		if own != nil {
			has = own.count
		}
		if g := l.groups.All()[0]; g.count > has+1 {
			l.m.evict(now, g.list.oldest)
		} else {
			g.evictOverdue(now)
		}
		if l.silent == before {
			return false
		}
	}
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
		evictLargest(now, m)
	}
	return m.Conns() < m.cfg.Limits.MaxConns
}

// evictLargest ends the oldest connection of the largest group of silent peers, if any.
func evictLargest(now clock.Instant, m *Manager) {
	if all := m.largest.All(); len(all) > 0 {
		m.evict(now, all[0].list.oldest)
	}
}

// evictOverdue ends the oldest connection of a group, nil for none, if it is overdue.
func (g *silentGroup) evictOverdue(now clock.Instant) {
	if g != nil && now.Sub(g.list.oldest.silentSince) >= overdue {
		g.key.l.m.evict(now, g.list.oldest)
	}
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
	unlist(m, c)
	c.halfOpen = false
	m.halfOpen--
	if m.half[c.to.Remote]--; m.half[c.to.Remote] == 0 {
		delete(m.half, c.to.Remote)
	}
}

// silentKey names a group of connections.
type silentKey struct {
	l    *Listener
	addr netip.Addr
}

// silentGroup is the half-open connections of a listener and an address that wait for their
// peer, or for the end of Timewait. It exists while there are any.
type silentGroup struct {
	key   silentKey
	list  evictionList
	count int

	ofAll, ofListener deadline.Link // its places among the groups, the largest first
}

// newGroups returns a heap of groups, by one of their links. It is a heap of deadlines whose
// instants are the counts, negated: the largest group is the first to go.
func newGroups(link func(*silentGroup) *deadline.Link) deadline.Heap[silentGroup] {
	return deadline.New(link)
}

// list puts a connection among those that wait for their peer, or for the end of Timewait, as
// the newest.
func list(now clock.Instant, m *Manager, c *Conn) {
	unlist(m, c)
	c.silentSince = now
	if !c.halfOpen {
		m.evictTimewait.add(c)
		return
	}
	k := silentKey{c.listener, c.to.Remote}
	g := m.silent[k]
	if g == nil {
		g = &silentGroup{key: k}
		m.silent[k] = g
	}
	c.group = g
	g.list.add(c)
	g.resize(m, 1)
}

// unlist takes a connection out of those that wait, if it is among them.
func unlist(m *Manager, c *Conn) {
	g := c.group
	if g == nil {
		m.evictTimewait.remove(c)
		return
	}
	c.group = nil
	g.list.remove(c)
	g.resize(m, -1)
}

// resize notes that a group has grown or shrunk.
func (g *silentGroup) resize(m *Manager, by int) {
	l := g.key.l
	g.count += by
	l.silent += by
	if g.count == 0 {
		delete(m.silent, g.key)
		m.largest.Remove(g)
		l.groups.Remove(g)
		return
	}
	m.largest.Set(g, clock.Instant(-g.count))
	l.groups.Set(g, clock.Instant(-g.count))
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
