package storm

import (
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// handle handles the events of all connections of the adapter.
func (h *host) handle(_ clock.Instant, c *cm.Conn, e *cm.Event) {
	w := h.w
	s, _ := c.Consumer.(*side)
	switch {
	case h.step.quiet != "":
		w.Fail("forgery", "adapter %d: %s: event %v", h.Index, h.step.quiet, e.Type)
	case s == nil:
		h.incoming(c, e)
	case s.host != h || s.starts != h.starts:
		w.Fail("event", "adapter %d: %v for a connection of another adapter", h.Index, e.Type)
	default:
		s.onEvent(e)
	}
}

// incoming creates the passive side of a request.
func (h *host) incoming(c *cm.Conn, e *cm.Event) {
	w := h.w
	first, what := asked, mad.AttrREQ
	if e.Type == cm.SIDRREQReceived {
		first, what = queried, mad.AttrSIDRREQ
	}
	from, try := w.speaker(h, e)
	switch {
	case e.Type != cm.REQReceived && e.Type != cm.SIDRREQReceived:
		w.Fail("event", "adapter %d: %v for a connection without an owner", h.Index, e.Type)
		return
	case from == nil:
		w.Fail("private data", "adapter %d: %v without its private data", h.Index, e.Type)
		return
	}
	from.born++
	s := h.newSide(from.id+uint64(from.born), from.kind, false)
	s.conn, s.peerAddr = c, c.Path().Remote
	s.attempt(try, from)
	c.Consumer = s
	s.checkRequest(e, what)
	if q := e.REQ; q != nil {
		s.interval, s.retries, s.ack = mad.Timeout(q.LocalResponseTimeout), q.MaxCMRetries, q.Primary.LocalAckTimeout
		s.pay = allowance{limited: true, left: perREQ}
		s.arrived()
	}
	h.adopt(s)
	s.enter(first)
	w.tell(s, "hears", e.Type)
	if !first.is(c.State()) {
		w.Fail("state", "adapter %d: a new connection is in %v", h.Index, c.State())
	}
	s.program.react(e.Type)
}

// checkRequest checks an arrived request: it is unchanged, its host offers the
// service, and it creates no second connection (C3, C7).
func (s *side) checkRequest(e *cm.Event, what mad.AttrID) {
	h, w, from := s.host, s.host.w, s.peer
	l := s.conn.Listener()
	if l == nil || l.Service() != s.conn.Service() || h.services[l.Service()] != l || from.asks.to != h || from.asks.service != l.Service() {
		w.Fail("event", "adapter %d: %v at a listener that it is not for, or that is closed", h.Index, e.Type)
	}
	if what == mad.AttrREQ && from.try == s.try && e.REQ.LocalQPN != from.qpn {
		w.Fail("terms", "adapter %d: REQ names qp %v, and %s has %v", h.Index, e.REQ.LocalQPN, from, from.qpn)
	}
	for _, o := range h.sides {
		st := o.conn.State()
		switch {
		case st == cm.Idle:
		case !o.active && o.peer == from && o.try == s.try:
			w.Fail("twice", "adapter %d: %s asks once, and %s and another one hear it", h.Index, from, o)
		case what == mad.AttrREQ && o.usesQP(s.conn.RemoteQPN(), s.peerAddr):
			w.Fail("stale", "adapter %d: a REQ for qp %v of %v is taken while %s has it, in %v", h.Index, s.conn.RemoteQPN(), s.peerAddr, o, st)
		}
	}
}

// usesQP reports whether the manager assigns the peer's queue pair to this
// connection, because the peer has answered it.
func (s *side) usesQP(n ib.QPN, at netip.Addr) bool {
	st := s.conn.State()
	return s.kind != datagrams && st != cm.Idle && st != cm.Timewait && (s.active || s.claimed) && !s.outdone && s.conn.RemoteID() != 0 &&
		s.conn.RemoteQPN() == n && s.peerAddr == at
}

// onEvent checks an event: the phase must allow it, it must come from the peer,
// and the connection must be in the following phase.
func (s *side) onEvent(e *cm.Event) {
	h, w := s.host, s.host.w
	w.tell(s, "hears", e.Type)
	h.step.heard = heard{s, e.Type}
	next, ok := s.phase.after(e.Type)
	if !ok || !s.alive() {
		w.Fail("event", "adapter %d: %s hears %v when it is %v, destroyed %v", h.Index, s, e.Type, s.phase, s.destroyed)
		return
	}
	if e.REJ != nil && e.REJ.Reason == mad.RejStaleConnection && next == over {
		next = quiet
		w.Mark("rejected as stale")
	}
	from, try := w.speaker(h, e)
	if !s.fromPeer(e, from, try) {
		w.Fail("stranger", "adapter %d: %s hears %v of %s, try %d, which is not its peer", h.Index, s, e.Type, from, try)
	}
	if st := s.conn.State(); !next.is(st) {
		w.Fail("state", "adapter %d: %s, %v, hears %v and is in %v", h.Index, s, s.phase, e.Type, st)
	}
	w.markEvent(e)
	s.unanswered(e)
	s.learn(e, from)
	if next != s.phase {
		s.enter(next)
	}
	older := s.claim(e.Type)
	s.program.react(e.Type)
	if older != nil && older.phase == up && !h.doubts(older, nil) {
		older.supersede()
	}
}

// fromPeer reports whether an event comes from the peer. Messages that a
// manager sends by itself contain no private data of the program; but RTU, REP,
// MRA, LAP and APR always come from a program.
func (s *side) fromPeer(e *cm.Event, from *side, try uint32) bool {
	if from == nil {
		return e.REP == nil && e.RTU == nil && e.MRA == nil && e.LAP == nil && e.APR == nil &&
			(e.SIDRREP == nil || e.SIDRREP.Status != mad.SIDRValid)
	}
	if s.active && s.peer == nil { // the passive side is not known yet
		return !from.active && from.peer == s && try == s.try
	}
	return from == s.peer && try == s.try
}

// learn records the information in an event.
func (s *side) learn(e *cm.Event, from *side) {
	w := s.host.w
	switch e.Type {
	case cm.REPReceived:
		s.peer, s.of(s.try).peer = from, from
		s.arrived()
		s.ack = mad.AckTimeout(e.REP.TargetAckDelay, s.ack-min(s.ack, 1))
		if s.conn.RemoteQPN() != from.qpn || e.REP.LocalQPN != from.qpn {
			w.Fail("terms", "adapter %d: %s hears of qp %v, and %s has %v", s.host.Index, s, e.REP.LocalQPN, from, from.qpn)
		}
	case cm.RTUReceived, cm.UserEstablished:
		if in := cm.RepSent; e.Type == cm.UserEstablished { // the adapter calls it when data arrives (Q9)
			if s.repeats.until > 0 {
				in = cm.MRARepRcvd
			}
			w.cells.count(in, 0, cm.CallEstablish)
		}
		// Only the side whose REP was accepted may be connected: a request leads
		// to one connection (C3, C4).
		if a := s.peer.of(s.try); a.peer != s || !a.up {
			w.Fail("twice", "adapter %d: %s is connected by %v, and %s is not, or with another", s.host.Index, s, e.Type, s.peer)
		}
	case cm.MRAReceived:
		wait := mad.Timeout(e.MRA.ServiceTimeout) + mad.Timeout(s.ack)
		s.repeats.until = w.Now.Add(wait)
		s.limit = s.repeats.until.Add(s.exchange())
	case cm.LAPReceived:
		if s.active || s.lap == lapOwed && s.alternate == e.LAP.Alternate {
			w.Fail("event", "adapter %d: %s hears LAP, and cannot, or has heard it", s.host.Index, s)
		}
		s.lap, s.alternate, s.hesitated = lapOwed, e.LAP.Alternate, false
	case cm.APRReceived, cm.LAPError:
		if s.lap != lapAsked {
			w.Fail("event", "adapter %d: %s hears %v, and asked for nothing", s.host.Index, s, e.Type)
		}
		s.lap, s.limit = lapNone, clock.Never
	case cm.TimewaitExit:
		if s.host.step.givesWay {
			w.Mark("given up for another")
		} else if w.Now != s.limit {
			w.Fail("timer", "adapter %d: %s hears %v at %d, due at %d", s.host.Index, s, e.Type, w.Now, s.limit)
		}
	case cm.SIDRREPReceived:
		s.learnSIDR(e.SIDRREP, from)
	}
}

// learnSIDR compares the answer to a resolution with the answer that was sent
// (C9).
func (s *side) learnSIDR(p *mad.SIDRREP, from *side) {
	s.grant = grant{p.Status, p.QPN, p.QKey}
	s.peer = from
	if from != nil && s.grant != from.grant {
		s.host.w.Fail("terms", "adapter %d: %s is told %+v, and %s said %+v", s.host.Index, s, s.grant, from, from.grant)
	}
}
