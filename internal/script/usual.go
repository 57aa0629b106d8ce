package script

import (
	"math/bits"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// side is the sender of a message.
type side uint8

const (
	adapter side = iota
	peer
)

// tids are the transaction IDs of requests, which the answers to them repeat.
type tids struct {
	setUp uint64    // of the REQ or SIDR_REQ
	dreq  [2]uint64 // by side
	lap   uint64
}

// adapterAgent is the upper half of the adapter's transaction IDs: the number
// of the communication manager among the agents of QP1.
const adapterAgent = 2 << 32

// tid returns the transaction ID that a message should have.
func (c *connection) tid(attr mad.AttrID, from side, about mad.Which) uint64 {
	switch attr {
	case mad.AttrREQ, mad.AttrSIDRREQ, mad.AttrDREQ, mad.AttrLAP:
		if from == adapter {
			return adapterAgent | uint64(bits.ReverseBytes32(c.id))
		}
		return peerAgent | uint64(c.peer.id)
	case mad.AttrDREP:
		return c.tids.dreq[1-from]
	case mad.AttrAPR:
		return c.tids.lap
	}
	if attr == mad.AttrMRA && about == mad.WhichOther {
		return c.tids.lap
	}
	return c.tids.setUp
}

// noteTID remembers the transaction ID of a request, for its answer.
func (c *connection) noteTID(attr mad.AttrID, from side, tid uint64) {
	switch attr {
	case mad.AttrREQ, mad.AttrSIDRREQ:
		c.tids.setUp = tid
	case mad.AttrDREQ:
		c.tids.dreq[from] = tid
	case mad.AttrLAP:
		c.tids.lap = tid
	}
}

// ids returns the IDs of the sender and of the receiver.
func (c *connection) ids(from side) (local, remote uint32) {
	if from == adapter {
		return c.id, c.peer.id
	}
	return c.peer.id, c.id
}

// about returns the message that the side has yet to answer.
func (c *connection) about(from side) mad.Which {
	var s cm.State
	if c.conn != nil {
		s = c.conn.State()
	}
	switch {
	case from == peer && (s == cm.ReqSent || s == cm.MRAReqRcvd), from == adapter && (s == cm.ReqRcvd || s == cm.MRAReqSent):
		return mad.WhichREQ
	case from == peer && (s == cm.RepSent || s == cm.MRARepRcvd), from == adapter && (s == cm.RepRcvd || s == cm.MRARepSent):
		return mad.WhichREP
	}
	return mad.WhichOther
}

// The usual messages: the peer sends them with the fields that the script
// gives, and the adapter's messages are shown by their differences from them.

func (c *connection) usualREQ(from side) mad.REQ {
	m := mad.REQ{
		ServiceID: c.service, Transport: c.transport(), PKey: ib.PKeyDefault,
		RemoteResponseTimeout: cm.DefaultResponseTimeout, LocalResponseTimeout: cm.DefaultResponseTimeout,
		MaxCMRetries: cm.DefaultMaxRetries, Primary: c.usualPath(from),
	}
	m.LocalCommID, _ = c.ids(from)
	c.numbersRD(from, &m)
	if c.xrc() {
		m.ExtendedTransport = mad.ExtendedXRC
	}
	if from == adapter {
		m.LocalCAGUID = c.of.HCA.NodeGUID()
		return m
	}
	m.LocalCAGUID, m.LocalQPN, m.StartingPSN = c.peer.guid, c.peer.qpn, ib.NewPSN(localPSN)
	m.PathMTU, m.ResponderResources, m.InitiatorDepth, m.RetryCount, m.RNRRetryCount = ib.MTU1024, 4, 4, 7, 7
	return m
}

// usualPath is a path between adapter and peer, at the default lifetime.
func (c *connection) usualPath(from side) mad.Path {
	p := mad.Path{
		LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ib.GIDFromAddr(c.of.local), RemoteGID: ib.GIDFromAddr(c.of.peer),
		HopLimit: cm.DefaultHopLimit, LocalAckTimeout: cm.DefaultLifetime + 1,
	}
	if from == peer {
		p.LocalGID, p.RemoteGID = p.RemoteGID, p.LocalGID
	}
	return p
}

func (c *connection) usualREP(from side) mad.REP {
	var m mad.REP
	m.LocalCommID, m.RemoteCommID = c.ids(from)
	m.TargetAckDelay = 15
	if from == adapter {
		m.LocalCAGUID = c.of.HCA.NodeGUID()
		return m
	}
	m.LocalCAGUID, m.LocalQPN, m.StartingPSN = c.peer.guid, c.peer.qpn, ib.NewPSN(localPSN)
	m.ResponderResources, m.InitiatorDepth, m.RNRRetryCount = 4, 4, 7
	if c.xrc() {
		m.LocalQPN, m.LocalEECN, m.SRQ, m.InitiatorDepth = 0, uint32(c.peer.qpn), true, 0
	}
	if c.rd {
		m.LocalEECN, m.LocalQKey = uint32(c.peer.eecn), peerQKey
	}
	return m
}

func (c *connection) usualMRA(from side) mad.MRA {
	local, remote := c.ids(from)
	return mad.MRA{LocalCommID: local, RemoteCommID: remote, Message: c.about(from), ServiceTimeout: cm.DefaultMRATimeout}
}

func (c *connection) usualREJ(from side) mad.REJ {
	local, remote := c.ids(from)
	return mad.REJ{LocalCommID: local, RemoteCommID: remote, Message: c.about(from), Reason: mad.RejConsumer}
}

func (c *connection) usualRTU(from side) mad.RTU {
	local, remote := c.ids(from)
	return mad.RTU{LocalCommID: local, RemoteCommID: remote}
}

func (c *connection) usualDREQ(from side) mad.DREQ {
	local, remote := c.ids(from)
	return mad.DREQ{LocalCommID: local, RemoteCommID: remote, RemoteQPN: c.other(from)}
}

// other is the number of the receiver's queue pair, or with RD of its EE
// context.
func (c *connection) other(from side) ib.QPN {
	switch {
	case from == adapter && c.rd:
		return ib.QPN(c.peer.eecn)
	case from == adapter:
		return c.peer.qpn
	case c.rd:
		return ib.QPN(c.eecn())
	}
	return c.qpn()
}

func (c *connection) usualDREP(from side) mad.DREP {
	local, remote := c.ids(from)
	return mad.DREP{LocalCommID: local, RemoteCommID: remote}
}

func (c *connection) usualLAP(from side) mad.LAP {
	local, remote := c.ids(from)
	return mad.LAP{
		LocalCommID: local, RemoteCommID: remote, RemoteQPN: c.other(from),
		RemoteResponseTimeout: cm.DefaultResponseTimeout, Alternate: c.usualPath(from),
	}
}

func (c *connection) usualAPR(from side) mad.APR {
	local, remote := c.ids(from)
	return mad.APR{LocalCommID: local, RemoteCommID: remote}
}

func (c *connection) usualSIDRREQ(from side) mad.SIDRREQ {
	local, _ := c.ids(from)
	return mad.SIDRREQ{RequestID: local, PKey: ib.PKeyDefault, ServiceID: c.service}
}

func (c *connection) usualSIDRREP(from side) mad.SIDRREP {
	_, remote := c.ids(from)
	m := mad.SIDRREP{RequestID: remote, ServiceID: c.service}
	if from == peer {
		m.QPN, m.QKey = c.peer.qpn, peerQKey
	}
	return m
}
