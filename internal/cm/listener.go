package cm

import (
	"fmt"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/mad"
)

// Listener accepts requests for a service.
type Listener struct {
	// Consumer is for the consumer's use in its handler.
	Consumer any
	// RD: the consumer gets REQs of service RD only; without it, REQs of the other
	// services only.
	RD bool
	// MaxSilent bounds the connections that the consumer has accepted and whose peers have
	// not answered: each may hold a queue pair, a thread or a session of the consumer's. 0:
	// only the limits of the manager apply. At the bound a new connection evicts an older
	// one, or its REQ is not answered.
	MaxSilent int

	m       *Manager
	service mad.ServiceID
	handler Handler
	closed  bool
	track   tracked
	silent  int                        // number of connections that MaxSilent bounds
	groups  deadline.Heap[silentGroup] // the same by address, the largest group first
}

// Listen accepts REQ and SIDR_REQ for a service ID until Close. Errors:
// EADDRINUSE if the ID has a listener, ENOMEM at the limit of listeners.
func (m *Manager) Listen(s mad.ServiceID, h Handler) (*Listener, error) {
	switch {
	case m.listeners[s] != nil:
		return nil, fmt.Errorf("listen on service %v: %w", s, ib.EADDRINUSE)
	case len(m.listeners) >= m.cfg.Limits.MaxListeners:
		return nil, fmt.Errorf("listen on service %v: %d listeners are all there can be: %w", s, len(m.listeners), ib.ENOMEM)
	}
	l := &Listener{m: m, service: s, handler: h, groups: newGroups(func(g *silentGroup) *deadline.Link { return &g.ofListener })}
	m.listeners[s] = l
	l.report()
	m.early.Listened(s)
	return l, nil
}

// Service returns the service ID.
func (l *Listener) Service() mad.ServiceID { return l.service }

// Close stops listening. Existing connections stay.
func (l *Listener) Close() {
	if !l.closed {
		l.closed = true
		delete(l.m.listeners, l.service)
		l.track.Free()
	}
}

// accept creates a connection for a REQ, or refuses it. The checks are in the
// order of Linux, except that the check for an already connected QP comes last:
// it can end the old connection, so the REQ must be valid otherwise (C7).
func (m *Manager) accept(l *Listener, x *stimulus) {
	q := x.ev.REQ
	if m.cfg.Reject != nil {
		if why := m.cfg.Reject(x.from.From.Remote); why != 0 {
			m.refuse(x, why)
			return
		}
	}
	c := m.NewConn(l.handler)
	c.role, c.listener, c.service = Passive, l, q.ServiceID
	c.remoteID, c.guid, c.to, c.tid = q.LocalCommID, q.LocalCAGUID, x.sender(), x.tid
	c.allowance = allowance{limited: true, left: perMessage}
	if reason, ok := m.checkREQ(l, x); !ok {
		m.refuse(x, reason)
		return
	}
	if old := m.qps[qpKey{q.LocalQPN, c.guid, c.to.Remote}]; old != nil {
		if x.doubt(old) {
			return
		}
		m.refuse(x, mad.RejStaleConnection)
		old.expire(x.now)
		return
	}
	if h := m.far[farEnd{ib.EECN(q.LocalEECN), c.guid, c.to.Remote}]; h != nil && opensRDC(q) {
		if user := h.established(); user != nil && x.doubt(user) {
			return
		}
		m.refuse(x, mad.RejStaleConnection)
		h.expire(x.now)
		return
	}
	if !m.admit(x.now, c) {
		m.counters.Refused++
		return
	}
	id, err := m.newID(x.now)
	if err != nil || l.closed { // by the handler of an evicted connection
		m.leaveHalfOpen(c)
		m.counters.Refused++
		return
	}
	c.localID = id
	x.learnREQ(c, q)
	if !x.enter(c, q) {
		m.leaveHalfOpen(c)
		m.refuse(x, mad.RejRDCNotExist)
		return
	}
	m.local[id] = c
	m.remember(c)
	c.state = ReqRcvd
	report(c)
	x.raise(c, REQReceived)
}

// checkREQ returns the reason to reject a REQ for a listener.
func (m *Manager) checkREQ(l *Listener, x *stimulus) (mad.RejReason, bool) {
	q := x.ev.REQ
	switch {
	case !l.takes(q):
		return mad.RejInvalidTransport, false
	case !m.cfg.isLocal(q.Primary.RemoteGID), !m.cfg.isMember(q.PKey): // partitions have no reason code of their own; Linux uses this one
		return mad.RejInvalidGID, false
	case !q.Alternate.LocalGID.IsZero() && !m.cfg.isLocal(q.Alternate.RemoteGID):
		return mad.RejInvalidAltGID, false
	case !q.PathMTU.Valid() || q.PathMTU > m.cfg.MTU:
		return mad.RejInvalidMTU, false
	case q.Transport == mad.TransportRD && q.LocalEECN == 0:
		return mad.RejNoEEC, false
	case joinsRDC(q) && x.joinable(m) == nil:
		return mad.RejRDCNotExist, false
	}
	return 0, true
}

// takes reports whether the consumer of a listener accepts a service.
func (l *Listener) takes(q *mad.REQ) bool {
	switch t := q.Transport; t {
	case mad.TransportRD:
		return l.RD
	case mad.TransportExtended:
		return !l.RD && q.ExtendedTransport == mad.ExtendedXRC
	default:
		return !l.RD
	}
}

func (c *Config) isLocal(g ib.GID) bool {
	_, ok := c.sgid(g.Addr())
	return ok
}

// isMember reports whether the port is in a partition.
func (c *Config) isMember(k ib.PKey) bool {
	return slices.ContainsFunc(c.PKeys, k.Matches)
}

// learnREQ stores the REQ's parameters as this side sees them.
func (x *stimulus) learnREQ(c *Conn, q *mad.REQ) {
	p := &q.Primary
	c.path = Path{
		Local: p.RemoteGID.Addr(), Remote: p.LocalGID.Addr(), FlowLabel: p.FlowLabel, TClass: p.TrafficClass,
		HopLimit: DefaultHopLimit, SL: p.SL, MTU: q.PathMTU, PKey: q.PKey,
		Lifetime: p.LocalAckTimeout - min(p.LocalAckTimeout, 1),
	}
	c.to.TClass = p.TrafficClass
	c.ep = endpoint{
		transport: q.Transport, remoteQPN: q.LocalQPN, localPSN: c.m.psn(), remotePSN: q.StartingPSN,
		responderResources: q.InitiatorDepth, initiatorDepth: q.ResponderResources,
		retryCount: q.RetryCount, rnrRetryCount: q.RNRRetryCount,
		ackTimeout: max(p.LocalAckTimeout, 1), // as Linux: 0 would mean forever
	}
	c.asked = q.Alternate
	learnPort(c, q.PrivateData[:])
	c.retry = retry{max: q.MaxCMRetries, interval: peerWait(q.LocalResponseTimeout)}
}

// refuse answers a REQ that is not accepted.
func (m *Manager) refuse(x *stimulus, why mad.RejReason) {
	msg := mad.REJ{RemoteCommID: x.ev.REQ.LocalCommID, Message: mad.WhichREQ, Reason: why}
	if why == mad.RejInvalidGID && len(m.cfg.Addrs) > 0 {
		g := ib.GIDFromAddr(m.cfg.Addrs[0])
		msg.InfoLength = uint8(copy(msg.Info[:], g[:]))
	}
	m.answerREJ(x, msg)
}

// answerREJ rejects a message without a connection.
func (m *Manager) answerREJ(x *stimulus, msg mad.REJ) {
	traceRefusal(m, x, msg.Reason)
	d := newMAD(mad.AttrREJ, x.tid)
	msg.Put(d)
	m.reply(x.now, x.sender(), d)
}

// rejectUnknown answers a REP or an RTU for a connection that does not exist
// (any more): the REJ of the side that gave up was lost. Without the answer the
// sender of the REP would keep a QP ready until its retries are spent, and the
// sender of the RTU forever.
func (m *Manager) rejectUnknown(x *stimulus) {
	msg := mad.REJ{Reason: mad.RejInvalidCommID}
	if p := x.ev.REP; p != nil {
		msg.LocalCommID, msg.RemoteCommID, msg.Message = p.RemoteCommID, p.LocalCommID, mad.WhichREP
	} else {
		r := x.ev.RTU
		msg.LocalCommID, msg.RemoteCommID, msg.Message = r.RemoteCommID, r.LocalCommID, mad.WhichOther
	}
	m.answerREJ(x, msg)
}

// acceptSIDR creates a resolution for a SIDR_REQ.
func (m *Manager) acceptSIDR(l *Listener, x *stimulus) {
	q := x.ev.SIDRREQ
	c := m.NewConn(l.handler)
	c.role, c.listener, c.service = Passive, l, q.ServiceID
	c.remoteID, c.to, c.tid = q.RequestID, x.sender(), x.tid
	learnPort(c, q.PrivateData[:])
	c.path = Path{
		Local: c.to.Local, Remote: c.to.Remote, FlowLabel: c.to.FlowLabel, TClass: c.to.TClass,
		HopLimit: DefaultHopLimit, MTU: m.cfg.MTU, PKey: q.PKey,
	}
	if !m.admit(x.now, c) {
		m.counters.Refused++
		return
	}
	if l.closed { // by the handler of an evicted connection
		m.leaveHalfOpen(c)
		m.counters.Refused++
		return
	}
	m.sidr[sidrKey{c.remoteID, c.to.Remote}] = c
	c.state = SIDRReqRcvd
	report(c)
	x.raise(c, SIDRREQReceived)
}
