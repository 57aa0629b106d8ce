package cm

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/mad"
)

// Receive processes a MAD of the CM class from QP1. It reports false if the
// attribute is not a CM message.
func (m *Manager) Receive(now clock.Instant, r *gsi.Received) bool {
	h := r.MAD.Header()
	if h.AttrID < mad.AttrREQ || h.AttrID > mad.AttrAPR {
		return false
	}
	m.counters.Received[kindOf(r.MAD)]++
	x := &stimulus{now: now, from: r, tid: h.TID}
	switch h.AttrID {
	case mad.AttrREQ:
		m.receiveREQ(x)
	case mad.AttrREP:
		x.ev.REP = decode(&mad.REP{}, r.MAD)
		m.deliver(MsgREP, x.ev.REP.RemoteCommID, x.ev.REP.LocalCommID, x)
	case mad.AttrREJ:
		m.receiveREJ(x)
	case mad.AttrMRA:
		m.receiveMRA(x)
	case mad.AttrRTU:
		x.ev.RTU = decode(&mad.RTU{}, r.MAD)
		m.deliver(MsgRTU, x.ev.RTU.RemoteCommID, x.ev.RTU.LocalCommID, x)
	case mad.AttrDREQ:
		m.receiveDREQ(x)
	case mad.AttrDREP:
		x.ev.DREP = decode(&mad.DREP{}, r.MAD)
		if c := m.find(x.ev.DREP.RemoteCommID, x.ev.DREP.LocalCommID, x); !forgotten(now, c) {
			m.hand(MsgDREP, c, x)
		}
	case mad.AttrLAP:
		x.receiveLAP(m)
	case mad.AttrAPR:
		x.ev.APR = decode(&mad.APR{}, r.MAD)
		m.deliver(MsgAPR, x.ev.APR.RemoteCommID, x.ev.APR.LocalCommID, x)
	case mad.AttrSIDRREQ:
		m.receiveSIDRREQ(x)
	case mad.AttrSIDRREP:
		m.receiveSIDRREP(x)
	}
	return true
}

// decode reads a message and returns it.
func decode[M interface{ Decode(*mad.MAD) }](msg M, m *mad.MAD) M {
	msg.Decode(m)
	return msg
}

// find returns the connection of a message that names both sides: the local
// side by to, the peer by from. While the peer's ID is not known, any from
// matches.
func (m *Manager) find(to, from uint32, x *stimulus) *Conn {
	c := m.local[to]
	switch {
	case c == nil:
		return nil
	case !c.isPeer(&x.from.From):
		m.counters.Foreign++
		x.foreign = true
		return nil
	case c.remoteID != from && c.remoteID != 0:
		return nil
	}
	c.allowance.limited = false
	c.heard(&x.from.From)
	return c
}

// deliver passes a message to its connection.
func (m *Manager) deliver(on Input, to, from uint32, x *stimulus) { m.hand(on, m.find(to, from, x), x) }

// hand passes a message to connection c, or to unmatched if c is nil.
func (m *Manager) hand(on Input, c *Conn, x *stimulus) {
	if c == nil {
		m.unmatched(on, x)
		return
	}
	_ = c.step(on, x) // messages are counted, not refused
}

// unmatched applies the machine's row for a message without a connection. A
// sender that names the connection of another peer gets no answer.
func (m *Manager) unmatched(on Input, x *stimulus) {
	if x.foreign {
		return
	}
	switch machine[Unknown][on].do {
	case rejectService:
		m.refuse(x, mad.RejInvalidServiceID)
	case rejectUnknownID:
		m.rejectUnknown(x)
	case answerDREP:
		m.answerDREQ(x)
	case unknownSIDR:
		m.refuseSIDR(x)
	default:
		m.counters.Unmatched++
	}
}

// connectable reports whether a QPN is possible for a connected QP.
func connectable(q ib.QPN) bool { return q > ib.QPNGSI && q < ib.QPNMulticast }

// receiveREQ checks whether a REQ is new. A REQ must have a communication ID, a
// possible QPN, and a path back to its sender, since data will take that path.
func (m *Manager) receiveREQ(x *stimulus) {
	q := decode(&mad.REQ{}, x.from.MAD)
	x.ev.REQ = q
	remote := x.from.From.Remote
	if q.LocalCommID == 0 || !connectable(q.LocalQPN) || q.Primary.LocalGID.Addr() != remote {
		m.counters.Invalid++
		return
	}
	if c := m.peers[peerKey{q.LocalCommID, q.LocalCAGUID, remote}]; c != nil {
		c.allowance.earn()
		_ = c.step(MsgREQ, x)
		return
	}
	if l := m.listens(MsgREQ, q.ServiceID, x); l != nil {
		m.accept(l, x)
	}
}

// listens returns the listener of a service for a request. Without one, the request
// is kept for a while, or answered.
func (m *Manager) listens(on Input, s mad.ServiceID, x *stimulus) *Listener {
	l := m.listeners[s]
	if l == nil && !x.keep(m, s) {
		m.unmatched(on, x)
	}
	return l
}

// receiveREJ handles a REJ. With reason timeout, it contains its sender's GUID
// instead of the local ID, which the sender may not know (C7).
func (m *Manager) receiveREJ(x *stimulus) {
	j := decode(&mad.REJ{}, x.from.MAD)
	x.ev.REJ = j
	on := MsgREJ
	if j.Reason == mad.RejStaleConnection {
		on = MsgREJStale
	}
	var c *Conn
	switch {
	case j.Reason == mad.RejTimeout && j.RemoteCommID == 0 && j.InfoLength >= 8:
		c = m.peers[peerKey{j.LocalCommID, binary.BigEndian.Uint64(j.Info[:8]), x.from.From.Remote}]
	case j.Message == mad.WhichREQ:
		// The peer may have no ID yet. If its ID is already known here, it had
		// accepted the REQ, and rejects a late repetition.
		c = m.find(j.RemoteCommID, 0, x)
	default:
		c = m.find(j.RemoteCommID, j.LocalCommID, x)
	}
	m.hand(on, c, x)
}

// mraInputs are indexed by what an MRA is about.
var mraInputs = [...]Input{mad.WhichREQ: MsgMRAREQ, mad.WhichREP: MsgMRAREP, mad.WhichOther: MsgMRAOther}

func (m *Manager) receiveMRA(x *stimulus) {
	a := decode(&mad.MRA{}, x.from.MAD)
	x.ev.MRA = a
	if int(a.Message) >= len(mraInputs) {
		m.counters.Invalid++
		return
	}
	m.deliver(mraInputs[a.Message], a.RemoteCommID, a.LocalCommID, x)
}

// receiveLAP checks that the LAP names the local EE context. Linux does not
// check the QPN.
func (x *stimulus) receiveLAP(m *Manager) {
	l := decode(&mad.LAP{}, x.from.MAD)
	x.ev.LAP = l
	c := m.find(l.RemoteCommID, l.LocalCommID, x)
	if c != nil && c.channel != nil && !isNamed(c, l.RemoteQPN) {
		m.counters.Invalid++
		return
	}
	m.hand(MsgLAP, c, x)
}

// receiveDREQ checks that the DREQ names the local QP or EE context.
func (m *Manager) receiveDREQ(x *stimulus) {
	d := decode(&mad.DREQ{}, x.from.MAD)
	x.ev.DREQ = d
	c := m.find(d.RemoteCommID, d.LocalCommID, x)
	switch {
	case c == nil:
		m.unmatched(MsgDREQ, x)
	case !isNamed(c, d.RemoteQPN):
		m.counters.Invalid++
	default:
		c.dreqTID = x.tid
		_ = c.step(MsgDREQ, x)
	}
}

// answerDREQ answers a DREQ without a connection, so that its sender need not
// wait.
func (m *Manager) answerDREQ(x *stimulus) {
	d := x.ev.DREQ
	msg := mad.DREP{LocalCommID: d.RemoteCommID, RemoteCommID: d.LocalCommID}
	drep := newMAD(mad.AttrDREP, x.tid)
	msg.Put(drep)
	m.reply(x.now, x.sender(), drep)
}

func (m *Manager) receiveSIDRREQ(x *stimulus) {
	q := decode(&mad.SIDRREQ{}, x.from.MAD)
	x.ev.SIDRREQ = q
	if c := m.sidr[sidrKey{q.RequestID, x.from.From.Remote}]; c != nil {
		_ = c.step(MsgSIDRREQ, x)
		return
	}
	if l := m.listens(MsgSIDRREQ, q.ServiceID, x); l != nil {
		m.acceptSIDR(l, x)
	}
}

// refuseSIDR answers a SIDR_REQ for a service without a listener.
func (m *Manager) refuseSIDR(x *stimulus) {
	q := x.ev.SIDRREQ
	msg := mad.SIDRREP{RequestID: q.RequestID, Status: mad.SIDRUnsupportedService, ServiceID: q.ServiceID}
	traceRefusal(m, x, msg.Status)
	d := newMAD(mad.AttrSIDRREP, x.tid)
	msg.Put(d)
	m.reply(x.now, x.sender(), d)
}

func (m *Manager) receiveSIDRREP(x *stimulus) {
	p := decode(&mad.SIDRREP{}, x.from.MAD)
	x.ev.SIDRREP = p
	c := m.local[p.RequestID]
	switch {
	case c == nil:
		m.unmatched(MsgSIDRREP, x)
	case c.to.Remote != x.from.From.Remote:
		m.counters.Foreign++
	default:
		_ = c.step(MsgSIDRREP, x)
	}
}
