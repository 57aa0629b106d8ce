package cm

import (
	"fmt"
	"net/netip"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/mad"
)

// invariants returns the first thing in a manager that contradicts another,
// nil if all is consistent.
func invariants(m *Manager) error {
	for _, check := range []func(*Manager) error{checkMaps, checkChannels, checkHalfOpen, checkWaiters, checkTimers, checkConns, checkListeners} {
		if err := check(m); err != nil {
			return err
		}
	}
	return nil
}

// checkMaps checks that every connection is in the right maps, and nothing else
// is.
func checkMaps(m *Manager) error {
	known := 0
	for id, c := range m.local {
		switch {
		case id == 0 || c.localID != id || c.m != m:
			return fmt.Errorf("ID %#x leads to connection %#x", id, c.localID)
		case c.state == Idle || c.state == Listen || c.state == SIDRReqRcvd || c.state >= Unknown:
			return fmt.Errorf("connection %#x is held in state %v", id, c.state)
		case (c.remoteID != 0) != (m.peers[peerKeyOf(c)] == c):
			return fmt.Errorf("connection %#x with the peer's ID %#x: among the peers %v", id, c.remoteID, m.peers[peerKeyOf(c)] == c)
		case !answered(c) && m.qps[qpKeyOf(c)] == c:
			return fmt.Errorf("connection %#x in state %v has the peer's QP", id, c.state)
		}
		if c.remoteID != 0 {
			known++
		}
	}
	for k, c := range m.sidr {
		if c.state != SIDRReqRcvd || k != (sidrKey{c.remoteID, c.to.Remote}) {
			return fmt.Errorf("resolution %+v is held in state %v", k, c.state)
		}
	}
	if known != len(m.peers) {
		return fmt.Errorf("%d connections know their peer's ID, %d are known by it", known, len(m.peers))
	}
	for k, c := range m.qps {
		if k != qpKeyOf(c) || m.local[c.localID] != c {
			return fmt.Errorf("QP %+v leads to connection %#x of %+v", k, c.localID, qpKeyOf(c))
		}
	}
	if m.Conns() > m.cfg.Limits.MaxConns {
		return fmt.Errorf("%d connections, the limit is %d", m.Conns(), m.cfg.Limits.MaxConns)
	}
	return nil
}

// answered reports whether the peer has answered a connection, and that is not in TIMEWAIT.
func answered(c *Conn) bool {
	switch c.state {
	case Idle, ReqSent, MRAReqRcvd, ReqRcvd, MRAReqSent, RepSent, Timewait, SIDRReqSent, SIDRReqRcvd:
		return false
	default:
		return true
	}
}

// checkChannels checks that every live channel is found by both its EE contexts,
// and has exactly the connections that refer to it.
func checkChannels(m *Manager) error {
	held := map[*Channel]int{}
	for _, c := range m.local {
		h := c.channel
		if (h != nil) != (c.ep.transport == mad.TransportRD && c.state != Idle) {
			return fmt.Errorf("connection %#x of %v in state %v has channel %v", c.localID, c.ep.transport, c.state, h)
		}
		if h == nil {
			continue
		}
		held[h]++
		alive := c.state >= ReqSent && c.state <= Established
		if c.uses != alive || alive && h.users[c.place] != c {
			return fmt.Errorf("connection %#x in state %v uses its channel: %v", c.localID, c.state, c.uses)
		}
		up := c.state == Established || c.state == RepSent || c.state == MRARepRcvd
		if up && h.state != ChannelUp {
			return fmt.Errorf("connection %#x in state %v on a channel in %v", c.localID, c.state, h.state)
		}
	}
	far := 0
	for h, n := range held {
		inUse := h.state == ChannelOpening || h.state == ChannelUp
		switch {
		case h.held != n || inUse != (len(h.users) > 0) || h.state == ChannelOver:
			return fmt.Errorf("channel of %v in %v: %d users, %d held, %d in truth", h.local, h.state, len(h.users), h.held, n)
		case h.local != 0 && m.channels[h.local] != h:
			return fmt.Errorf("channel of %v is not found", h.local)
		case !inUse && m.far[h.far] == h:
			return fmt.Errorf("channel of %v in %v is found by the peer's", h.local, h.state)
		}
		if m.far[h.far] == h {
			far++
		}
	}
	for n, h := range m.channels {
		if h.local != n || held[h] == 0 {
			return fmt.Errorf("EE context %v leads to a channel of %v that nobody holds", n, h.local)
		}
	}
	if len(m.far) != far {
		return fmt.Errorf("%d channels are known by the peer's EE context, %d should be", len(m.far), far)
	}
	return nil
}

// checkHalfOpen compares the counts with the connections.
func checkHalfOpen(m *Manager) error {
	total, by := 0, map[netip.Addr]int{}
	var err error
	m.EachConn(func(c *Conn) {
		half := c.role == Passive && (c.state == ReqRcvd || c.state == MRAReqSent || c.state == RepSent ||
			c.state == MRARepRcvd || c.state == SIDRReqRcvd)
		// It stays half-open if it ends without ever being established.
		ends := c.role == Passive && (c.state == DReqRcvd || c.state == Timewait)
		if half && !c.halfOpen || c.halfOpen && !half && !ends {
			err = fmt.Errorf("connection %#x in state %v: counted as half-open is %v", c.localID, c.state, c.halfOpen)
		}
		if c.halfOpen {
			total++
			by[c.to.Remote]++
		}
	})
	if err != nil {
		return err
	}
	if total != m.halfOpen || total > m.cfg.Limits.MaxHalfOpen || len(by) != len(m.half) {
		return fmt.Errorf("%d half-open connections of %d peers, counted are %d of %d, the limit is %d",
			total, len(by), m.halfOpen, len(m.half), m.cfg.Limits.MaxHalfOpen)
	}
	for a, n := range by {
		if m.half[a] != n || n > max(m.cfg.Limits.MaxHalfOpen*3/4, 1) {
			return fmt.Errorf("%d half-open connections of %v, counted are %d", n, a, m.half[a])
		}
	}
	return nil
}

// waitsFor returns the message that a connection repeats until it is answered,
// 0 for none.
func waitsFor(c *Conn) mad.AttrID {
	switch c.state {
	case ReqSent, MRAReqRcvd:
		return mad.AttrREQ
	case RepSent, MRARepRcvd:
		return mad.AttrREP
	case DReqSent:
		return mad.AttrDREQ
	case SIDRReqSent:
		return mad.AttrSIDRREQ
	case Established:
		if c.lap == LAPSent || c.lap == LAPMRARcvd {
			return mad.AttrLAP
		}
	}
	return 0
}

func checkTimers(m *Manager) error {
	for _, c := range m.timers.All() {
		if m.local[c.localID] != c {
			return fmt.Errorf("a timer runs of connection %#x in state %v, which is not held", c.localID, c.state)
		}
	}
	for id, c := range m.local {
		attr, runs := waitsFor(c), c.timer.At() != clock.Never
		switch {
		case runs != (attr != 0 || c.state == Timewait):
			return fmt.Errorf("connection %#x in state %v/%v: a timer runs is %v", id, c.state, c.lap, runs)
		case (c.sent != nil) != (attr != 0):
			return fmt.Errorf("connection %#x in state %v/%v: something waits for an answer is %v", id, c.state, c.lap, c.sent != nil)
		case c.sent != nil && c.sent.Header().AttrID != attr:
			return fmt.Errorf("connection %#x in state %v/%v: %v waits for an answer", id, c.state, c.lap, c.sent.Header().AttrID)
		}
	}
	return nil
}

// checkConns checks that the fields of each connection fit its state.
func checkConns(m *Manager) (err error) {
	m.EachConn(func(c *Conn) {
		switch {
		case c.lap != LAPIdle && c.state != Established:
			err = fmt.Errorf("connection %#x in state %v is in %v", c.localID, c.state, c.lap)
		case (c.lap == LAPSent || c.lap == LAPMRARcvd) && c.role != Active, (c.lap == LAPRcvd || c.lap == LAPMRASent) && c.role != Passive:
			err = fmt.Errorf("%v connection %#x is in %v", c.role, c.localID, c.lap)
		case c.destroyed && (c.handler != nil || c.state != DReqSent && c.state != Timewait):
			err = fmt.Errorf("connection %#x in state %v was destroyed", c.localID, c.state)
		case c.answer != nil && !answerFits(c):
			err = fmt.Errorf("connection %#x in state %v keeps %v", c.localID, c.state, c.answer.Header().AttrID)
		}
	})
	return err
}

// answerFits reports whether the kept answer is one that the connection can
// have sent.
func answerFits(c *Conn) bool {
	switch a := c.answer.Header().AttrID; c.state {
	case MRAReqSent, MRARepSent:
		return a == mad.AttrMRA
	case Established, DReqSent, DReqRcvd:
		return c.role == Active && a == mad.AttrRTU || c.role == Passive && a == mad.AttrMRA
	case Timewait:
		return true
	default:
		return false
	}
}

func checkListeners(m *Manager) error {
	for s, l := range m.listeners {
		if l.service != s || l.closed || l.m != m {
			return fmt.Errorf("listener of %v is found under %v, closed is %v", l.service, s, l.closed)
		}
	}
	if n := len(m.listeners); n > m.cfg.Limits.MaxListeners {
		return fmt.Errorf("%d listeners, the limit is %d", n, m.cfg.Limits.MaxListeners)
	}
	return nil
}

// empty returns an error if a manager holds anything but listeners.
func empty(m *Manager) error {
	if n := len(m.local) + len(m.peers) + len(m.qps) + len(m.sidr) + len(m.half) + m.timers.Len() + m.halfOpen; n != 0 {
		return fmt.Errorf("left over: %d IDs, %d peers, %d QPs, %d resolutions, %d half-open of %d peers, %d timers",
			len(m.local), len(m.peers), len(m.qps), len(m.sidr), m.halfOpen, len(m.half), m.timers.Len())
	}
	return nil
}
