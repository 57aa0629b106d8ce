package storm

import (
	"math/rand/v2"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/virtual"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// message is a CM message that can be written into a MAD.
type message interface{ Put(*mad.MAD) }

// actForge sends an adapter a forged message. Its sender knows all IDs. It
// comes from a stranger, or from the peer but without meaning in the state of
// the connection, and must have no effect; or it reports that the peer has
// restarted.
func (w *world) actForge(r *rand.Rand) {
	s := w.pick(r, func(s *side) bool { return s.localID != 0 && s.conn.State() != cm.Idle })
	if s == nil {
		return
	}
	w.Mark("MADs forged")
	from, to := s.conn.RemoteID(), s.localID
	switch r.IntN(8) {
	case 0, 1:
		attr, msg := s.weapon(r, from, to)
		src := s.peerAddr // no host has the following addresses
		for range 16 {
			src = src.Next()
		}
		s.host.inject(src, attr, msg, "a message of a stranger had an effect")
	case 2:
		if s.kind != datagrams && s.conn.State() != cm.ReqSent && s.conn.State() != cm.DReqRcvd {
			s.host.inject(s.peerAddr, mad.AttrREJ, &mad.REJ{
				LocalCommID: from, RemoteCommID: to, Message: mad.WhichOther, Reason: mad.RejStaleConnection,
			}, "")
		}
	case 3:
		s.slander(r.Uint32())
	default:
		s.nonsense(r, from, to)
	}
	s.host.pump()
}

// slander forges a message of the peer which suggests that the peer has forgotten an
// established connection: a request for another one with the same queue pair.
func (s *side) slander(id uint32) {
	h := s.host
	if s.phase != up || s.outdone || !s.alive() || !h.examines() {
		return
	}
	for _, service := range serviceIDs() {
		if h.services[service] == nil {
			continue
		}
		p := s.peer.host
		h.inject(s.peerAddr, mad.AttrREQ, &mad.REQ{
			LocalCommID: max(id, 1), ServiceID: service, LocalCAGUID: p.HCA.NodeGUID(), LocalQPN: s.conn.RemoteQPN(),
			Transport: transportOf[s.kind], PKey: ib.PKeyDefault, PathMTU: ib.MTU256, MaxCMRetries: 1,
			Primary: mad.Path{LocalGID: ib.GIDFromAddr(s.peerAddr), RemoteGID: ib.GIDFromAddr(h.address(s.peerAddr.Is6())), HopLimit: 64},
		}, "")
		return
	}
}

// weapon returns a message that would end or establish the connection if the
// peer sent it.
func (s *side) weapon(r *rand.Rand, from, to uint32) (mad.AttrID, message) {
	switch r.IntN(5) {
	case 0:
		return mad.AttrRTU, &mad.RTU{LocalCommID: from, RemoteCommID: to}
	case 1:
		return mad.AttrDREQ, &mad.DREQ{LocalCommID: from, RemoteCommID: to, RemoteQPN: s.qpn}
	case 2:
		return mad.AttrDREP, &mad.DREP{LocalCommID: from, RemoteCommID: to}
	case 3:
		return mad.AttrSIDRREP, &mad.SIDRREP{RequestID: to}
	default:
		return mad.AttrREJ, &mad.REJ{LocalCommID: from, RemoteCommID: to, Message: mad.Which(r.IntN(3)), Reason: mad.RejConsumer}
	}
}

// nonsense sends a message in the peer's name that is meaningless for the
// connection.
func (s *side) nonsense(r *rand.Rand, from, to uint32) {
	which := mad.Which(r.IntN(3))
	reason := mad.RejConsumer
	if r.IntN(2) == 0 {
		reason = mad.RejStaleConnection
	}
	for _, m := range []struct {
		on   cm.Input
		attr mad.AttrID
		msg  message
	}{
		{[...]cm.Input{cm.MsgMRAREQ, cm.MsgMRAREP, cm.MsgMRAOther}[which], mad.AttrMRA, &mad.MRA{LocalCommID: from, RemoteCommID: to, Message: which}},
		{cm.MsgREQ, mad.AttrREQ, &mad.REQ{LocalCommID: from, LocalCAGUID: s.asks.guid()}},
		{cm.MsgREP, mad.AttrREP, &mad.REP{LocalCommID: from, RemoteCommID: to}},
		{cm.MsgRTU, mad.AttrRTU, &mad.RTU{LocalCommID: from, RemoteCommID: to}},
		{cm.MsgDREQ, mad.AttrDREQ, &mad.DREQ{LocalCommID: from, RemoteCommID: to, RemoteQPN: s.qpn}},
		{cm.MsgDREP, mad.AttrDREP, &mad.DREP{LocalCommID: from, RemoteCommID: to}},
		{cm.MsgREJ, mad.AttrREJ, &mad.REJ{LocalCommID: from, RemoteCommID: to, Message: mad.WhichOther, Reason: reason}},
		{cm.MsgLAP, mad.AttrLAP, &mad.LAP{LocalCommID: from, RemoteCommID: to}},
		{cm.MsgAPR, mad.AttrAPR, &mad.APR{LocalCommID: from, RemoteCommID: to}},
		{cm.MsgSIDRREP, mad.AttrSIDRREP, &mad.SIDRREP{RequestID: to}},
	} {
		if m.attr == mad.AttrDREP && s.exam != nil {
			continue // it would mean that the peer has forgotten the connection
		}
		if m.on == cm.MsgREJ && reason == mad.RejStaleConnection {
			m.on = cm.MsgREJStale
		}
		if in := s.conn.State(); dropped.has(in, s.conn.LAPState(), m.on) {
			s.cell(m.on)
			s.host.inject(s.peerAddr, m.attr, m.msg, "a message that means nothing now had an effect")
			if st := s.conn.State(); st != in {
				s.host.w.Fail("forgery", "adapter %d: %s goes from %v to %v for %v", s.host.Index, s, in, st, m.on)
			}
		}
	}
}

// inject delivers a message to an adapter at once, with a source address. If it
// must have no effect, why is the reason.
func (h *host) inject(src netip.Addr, attr mad.AttrID, msg message, why string) {
	m := new(mad.MAD)
	m.PutHeader(mad.CMHeader(attr, 0))
	msg.Put(m)
	p := roce.Packet{
		BTH:  roce.BTH{Opcode: roce.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
		DETH: roce.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}, Payload: m[:],
	}
	h.receive(&virtual.Packet{Sent: h.w.Now, Forged: why, Datagram: virtual.Forgery(&p, src, h.address(src.Is6()), 0xd872)})
}
