package cm

import (
	"net/netip"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
)

// overdue is how long a peer may take for its RTU before another connection of the same
// address may evict it: longer than a round trip and a scheduling delay of the peer.
const overdue = 100 * time.Millisecond

// admit counts a connection that a peer requests, and reports false at a limit: of its
// address, of the listener, or of the manager. It evicts accepted connections of silent
// peers, the oldest of the address with the most. Otherwise forged REQs, few from many
// absent hosts or many from one, would keep others out until their retries end, whose number
// and time the sender chooses.
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

// makeRoom makes room for another connection of the listener, and reports false if it
// cannot; the peer will repeat its REQ. own is the group of that peer. Many peers may
// connect at once without being an attack, so an address with no more connections than the
// peer's own loses only overdue ones.
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

// makeRoom makes room for one more connection, and reports false if it cannot.
// It first evicts the one that has been in Timewait longest, since the peer
// influences that time.
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

// evictOverdue ends the oldest connection of a group, if it is overdue; a nil group
// has none.
func (g *silentGroup) evictOverdue(now clock.Instant) {
	if g != nil && now.Sub(g.list.oldest.silentSince) >= overdue {
		g.key.l.m.evict(now, g.list.oldest)
	}
}

// evict ends a connection that waits only for its peer, as if its timer had
// fired for the last time; nil does nothing. Calls that the consumer makes in
// response evict nothing further, so that evictions do not recurse.
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

// leaveHalfOpen removes a connection from the half-open count.
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
// peer, or for the end of Timewait. It exists while it is not empty.
type silentGroup struct {
	key   silentKey
	list  evictionList
	count int

	ofAll, ofListener deadline.Link // links in the heaps of groups, the largest first
}

// newGroups returns a heap of groups, by one of their links. It is a heap of deadlines whose
// instants are the counts, negated: the largest group comes first.
func newGroups(link func(*silentGroup) *deadline.Link) deadline.Heap[silentGroup] {
	return deadline.New(link)
}

// list adds a connection, as the newest, to the eviction list of those that wait for their
// peer or for the end of Timewait.
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

// unlist removes a connection from its eviction list, if it is in one.
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
// of Timewait, the oldest first.
type evictionList struct{ oldest, newest *Conn }

// add puts a connection at the end.
func (l *evictionList) add(c *Conn) {
	l.remove(c)
	if c.older = l.newest; c.older == nil {
		l.oldest = c
	} else {
		c.older.newer = c
	}
	l.newest = c
}

// remove removes a connection, if it is in the list.
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
