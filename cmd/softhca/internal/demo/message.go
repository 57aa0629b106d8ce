package demo

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
)

// explainMAD names a management datagram, of which the beginning is at hand,
// and says in plain words what it means.
func explainMAD(first *[mad.SummarySize]byte) (label, meaning string) {
	var m mad.MAD
	copy(m[:], first[:])
	h := m.Header()
	if !h.IsCM() {
		return fmt.Sprintf("MAD %v %v", h.Class, h.Method), ""
	}
	switch h.AttrID {
	case mad.AttrREQ:
		var r mad.REQ
		r.Decode(&m)
		return fmt.Sprintf("REQ comm 0x%08x", r.LocalCommID),
			fmt.Sprintf("connect me to %v; my QP is %v, send to it from psn %v on", r.ServiceID, r.LocalQPN, r.StartingPSN)
	case mad.AttrSIDRREQ:
		var r mad.SIDRREQ
		r.Decode(&m)
		return fmt.Sprintf("SIDR_REQ request 0x%08x", r.RequestID), fmt.Sprintf("which QP serves %v?", r.ServiceID)
	case mad.AttrSIDRREP:
		var r mad.SIDRREP
		r.Decode(&m)
		return fmt.Sprintf("SIDR_REP request 0x%08x", r.RequestID),
			fmt.Sprintf("%v: QP %v, Q_Key 0x%08x", r.Status, r.QPN, uint32(r.QKey))
	default:
		var r mad.RTU // begins as all the others do
		r.Decode(&m)
		return fmt.Sprintf("%v comm 0x%08x remote 0x%08x", h.AttrID, r.LocalCommID, r.RemoteCommID), explainAnswer(&m, h.AttrID)
	}
}

// explainAnswer explains the messages that have both IDs.
func explainAnswer(m *mad.MAD, attr mad.AttrID) string {
	switch attr {
	case mad.AttrREP:
		var r mad.REP
		r.Decode(m)
		return fmt.Sprintf("accepted; my QP is %v, send to it from psn %v on", r.LocalQPN, r.StartingPSN)
	case mad.AttrRTU:
		return "ready to use: the connection is set up"
	case mad.AttrMRA:
		var r mad.MRA
		r.Decode(m)
		return fmt.Sprintf("patience: my answer may take %v", mad.Timeout(r.ServiceTimeout).Round(1e6))
	case mad.AttrREJ:
		var r mad.REJ
		r.Decode(m)
		return fmt.Sprintf("refused: %v", r.Reason)
	case mad.AttrDREQ:
		return "let us end the connection"
	case mad.AttrDREP:
		return "it has ended"
	case mad.AttrLAP:
		return "load this alternate path"
	case mad.AttrAPR:
		var r mad.APR
		r.Decode(m)
		return fmt.Sprintf("the alternate path: %v", r.Status)
	default:
		return ""
	}
}

// explainMove says what a new state of a queue pair means.
func explainMove(r *step) string {
	name, peer := "A", "B"
	if r.right {
		name, peer = peer, name
	}
	switch r.To {
	case ib.INIT:
		return name + " has a queue pair"
	case ib.RTR:
		return "ready to receive from " + peer
	case ib.RTS:
		return "ready to send to " + peer
	}
	if r.Cause == "modify" { // by the CM
		return name + " is done: nothing moves any more"
	}
	return r.Cause
}
