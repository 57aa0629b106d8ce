package demo

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// explain explains a packet in plain words; n is its payload in bytes.
func explain(p *roce.Packet, n int) string {
	start, end := p.Info.Flags&roce.FlagStart != 0, p.Info.Flags&roce.FlagEnd != 0
	switch p.Info.Kind {
	case roce.KindSend:
		return part(start, end) + queue(p) + please(p)
	case roce.KindWrite:
		if start && end && p.RETH == (roce.RETH{}) && n == 0 {
			return "a probe: do you still answer?"
		}
		if start {
			return fmt.Sprintf("put %d B at %#x, key %#08x", p.RETH.Length, p.RETH.VA, uint32(p.RETH.RKey))
		}
		return part(start, end) + please(p)
	case roce.KindReadRequest:
		return fmt.Sprintf("read %d B at %#x, key %#08x", p.RETH.Length, p.RETH.VA, uint32(p.RETH.RKey))
	case roce.KindReadResponse:
		return "the answer: " + answerPart(start, end, n)
	case roce.KindCompareSwap:
		return fmt.Sprintf("if the value is %d, set it to %d", p.AtomicETH.Compare, p.AtomicETH.SwapAdd)
	case roce.KindFetchAdd:
		return fmt.Sprintf("add %d to the value", p.AtomicETH.SwapAdd)
	case roce.KindAtomicWrite:
		return fmt.Sprintf("put 8 B at %#x in one piece, key %#08x", p.RETH.VA, uint32(p.RETH.RKey))
	case roce.KindFlush:
		return fmt.Sprintf("make %d B at %#x visible, key %#08x", p.RETH.Length, p.RETH.VA, uint32(p.RETH.RKey))
	case roce.KindAtomicAck:
		return fmt.Sprintf("done; the old value was %d", p.AtomicAck)
	case roce.KindAck:
		return verdict(p.AETH)
	case roce.KindResync:
		return "the last message is suspended: continue after this PSN" + please(p)
	default:
		return ""
	}
}

func part(start, end bool) string {
	switch {
	case start && end:
		return "the whole message"
	case start:
		return "the beginning of a long message"
	case end:
		return "it ends"
	default:
		return "it continues"
	}
}

// queue names the shared receive queue of a request of XRC.
func queue(p *roce.Packet) string {
	if p.Info.Headers&roce.HasXRCETH == 0 {
		return ""
	}
	return fmt.Sprintf(" for queue %v", ib.SRQN(p.XRCETH.SRQN))
}

func please(p *roce.Packet) string {
	if p.BTH.AckReq {
		return "; please acknowledge"
	}
	return ""
}

func answerPart(start, end bool, n int) string {
	switch {
	case start && end && n == 0:
		return "done"
	case start && end:
		return fmt.Sprintf("all %d B", n)
	case start:
		return fmt.Sprintf("the first %d B", n)
	case end:
		return fmt.Sprintf("the last %d B", n)
	default:
		return fmt.Sprintf("the next %d B", n)
	}
}

// verdict explains an acknowledge.
func verdict(h roce.AETH) string {
	switch s := h.Syndrome; {
	case s.IsACK():
		return fmt.Sprintf("all up to here arrived; %s done", messages(h.MSN))
	case s.IsRNR():
		return fmt.Sprintf("no receive is posted: wait %v", ib.RNRTimer(s.Value()))
	case s == roce.NAKSequence:
		return "a packet before this one is missing"
	case s == roce.NAKRemoteAccess:
		return "refused: no access with this key"
	case s == roce.NAKInvalidRequest:
		return "refused: not a valid request"
	default:
		return "refused: an error of the responder"
	}
}

func messages(n ib.MSN) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// explainMAD returns the label of a management datagram, of which first is the beginning,
// and explains it in plain words.
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
		if r.Transport == mad.TransportRD {
			return fmt.Sprintf("REQ comm 0x%08x", r.LocalCommID), explainRD(&r)
		}
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
		var r mad.RTU // all the others begin with the same fields
		r.Decode(&m)
		return fmt.Sprintf("%v comm 0x%08x remote 0x%08x", h.AttrID, r.LocalCommID, r.RemoteCommID), explainAnswer(&m, h.AttrID)
	}
}

// explainRD explains a REQ for reliable datagrams.
func explainRD(r *mad.REQ) string {
	if r.RDCExists {
		return fmt.Sprintf("connect me to %v over the existing channel; my QP is %v", r.ServiceID, r.LocalQPN)
	}
	return fmt.Sprintf("connect me to %v over a new channel; my EE context is %v, my QP %v", r.ServiceID, ib.EECN(r.LocalEECN), r.LocalQPN)
}

// explainAnswer explains the messages with both IDs.
func explainAnswer(m *mad.MAD, attr mad.AttrID) string {
	switch attr {
	case mad.AttrREP:
		var r mad.REP
		r.Decode(m)
		if r.LocalEECN != 0 {
			return fmt.Sprintf("accepted; my EE context is %v, my QP %v", ib.EECN(r.LocalEECN), r.LocalQPN)
		}
		return fmt.Sprintf("accepted; my QP is %v, send to it from psn %v on", r.LocalQPN, r.StartingPSN)
	case mad.AttrRTU:
		return "ready to use: the connection is set up"
	case mad.AttrMRA:
		var r mad.MRA
		r.Decode(m)
		return fmt.Sprintf("wait: my answer may take %v", mad.Timeout(r.ServiceTimeout).Round(1e6))
	case mad.AttrREJ:
		var r mad.REJ
		r.Decode(m)
		return fmt.Sprintf("refused: %v", r.Reason)
	case mad.AttrDREQ:
		return "end the connection"
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

// explainMove explains a new state of a queue pair.
func explainMove(r *step) string {
	name, peer := "A", "B"
	if r.right {
		name, peer = peer, name
	}
	switch r.To {
	case ib.INIT:
		if r.EEC {
			return name + " has an EE context"
		}
		return name + " has a queue pair"
	case ib.RTR:
		return "ready to receive from " + peer
	case ib.RTS:
		return "ready to send to " + peer
	}
	if r.Cause == "modify" && r.EEC {
		return name + "'s end of the channel is closed"
	}
	if r.Cause == "modify" { // by the CM
		return name + " has disconnected"
	}
	return r.Cause
}
