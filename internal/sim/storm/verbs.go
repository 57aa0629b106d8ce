package storm

import (
	"errors"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// call records a call that must succeed and send its message.
func (s *side) call(verb cm.Input, err error) {
	w := s.host.w
	w.tell(s, "calls", verb)
	if err != nil {
		w.Fail("verb", "adapter %d: %s, %v: %v: %v", s.host.Index, s, s.phase, verb, err)
	}
	if attr := messageOf[verb]; attr != 0 {
		s.owe(attr, verb.String())
	}
}

// messageOf maps calls that send a message at once to that message.
var messageOf = map[cm.Input]mad.AttrID{
	cm.CallREQ: mad.AttrREQ, cm.CallREP: mad.AttrREP, cm.CallRTU: mad.AttrRTU, cm.CallREJ: mad.AttrREJ, cm.CallMRA: mad.AttrMRA,
	cm.CallDREQ: mad.AttrDREQ, cm.CallDREP: mad.AttrDREP, cm.CallLAP: mad.AttrLAP, cm.CallAPR: mad.AttrAPR,
	cm.CallSIDRREQ: mad.AttrSIDRREQ, cm.CallSIDRREP: mad.AttrSIDRREP,
}

// owe records a message to the peer that must be sent in this step, unless the allowance is
// exhausted.
func (s *side) owe(attr mad.AttrID, why string) {
	if s.unpaid() {
		return
	}
	e := &s.host.step
	e.dues = append(e.dues, due{attr: attr, local: s.conn.LocalID(), remote: s.conn.RemoteID(), why: why})
}

// goodbyes are the messages that notify the peer when a program destroys its
// connection, by phase.
var goodbyes = [numPhases]mad.AttrID{
	calling: mad.AttrREJ, answered: mad.AttrREJ, asked: mad.AttrREJ, offered: mad.AttrREJ, up: mad.AttrDREQ, left: mad.AttrDREP,
	queried: mad.AttrSIDRREP,
}

// cell counts an input in the current state of the machine.
func (s *side) cell(on cm.Input) { s.host.w.cells.count(s.conn.State(), s.conn.LAPState(), on) }

// request sends a connection request, the first or a further one, or a service
// resolution. It reports false if the adapter is at its limit.
func (s *side) request() bool {
	h, w, a := s.host, s.host.w, &s.asks
	s.attempt(s.try+1, nil)
	s.peerAddr, s.qpn = a.to.address(a.v6), 0
	var err error
	verb, next := cm.CallREQ, calling
	if s.kind == datagrams {
		verb, next = cm.CallSIDRREQ, resolving
	}
	s.cell(verb)
	h.step.givesWay = h.crowded(netip.Addr{})
	if s.kind == datagrams {
		s.interval = mad.Timeout(a.response)
		err = s.conn.SendSIDRREQ(w.Now, &cm.SIDRREQParams{
			Service: a.service, Path: s.path(), ResponseTimeout: a.response, MaxRetries: a.retries, PrivateData: s.say(saySIDRREQ),
		})
	} else {
		s.interval, s.ack = 2*mad.Timeout(a.lifetime)+mad.Timeout(a.response), a.lifetime+1
		s.qpn, s.attr = s.sock.num, ib.QPAttr{}
		err = s.conn.SendREQ(w.Now, &cm.REQParams{
			Service: a.service, Transport: transportOf[s.kind], QPN: s.qpn, Path: s.path(),
			ResponderResources: a.serves, InitiatorDepth: a.depth, RetryCount: 3 + a.depth%5, RNRRetryCount: 7,
			ResponseTimeout: a.response, MaxRetries: a.retries, PrivateData: s.say(sayREQ),
		})
	}
	h.step.givesWay = false
	if errors.Is(err, ib.ENOMEM) && w.plan.limits != (cm.Limits{}) {
		w.tell(s, "has no room for", verb)
		return false
	}
	s.call(verb, err)
	s.retries = a.retries
	s.sent, s.rcvd, s.pending = 0, 0, 0
	h.adopt(s)
	s.enter(next)
	return true
}

var transportOf = [numKinds]mad.TransportService{reliable: mad.TransportRC, unreliable: mad.TransportUC}

// accept answers a request with REP, or with SIDR_REP.
func (s *side) accept() {
	h, w := s.host, s.host.w
	if s.phase == queried {
		s.answerSIDR(mad.SIDRValid)
		return
	}
	if s.sock = h.take(s.kind, s.rand); s.sock == nil {
		s.reject(mad.RejNoQP)
		return
	}
	s.sock.owner, s.qpn = s, s.sock.num
	serves, depth := s.conn.Resources()
	if a := &s.peer.asks; serves != a.depth || depth != a.serves {
		w.Fail("terms", "adapter %d: %s is asked to serve %d and to have %d outstanding, want %d and %d", h.Index, s, serves, depth, a.depth, a.serves)
	}
	serves, depth = uint8(s.rand.IntN(int(serves)+1)), uint8(s.rand.IntN(int(depth)+1))
	s.conn.SetResources(serves, depth)
	s.establish()
	s.cell(cm.CallREP)
	s.call(cm.CallREP, s.conn.SendREP(w.Now, &cm.REPParams{
		QPN: s.qpn, ResponderResources: serves, InitiatorDepth: depth, RNRRetryCount: 7, PrivateData: s.say(sayREP),
	}))
	s.enter(offered)
}

// confirm prepares the queue pair and answers REP with RTU.
func (s *side) confirm() {
	s.establish()
	s.cell(cm.CallRTU)
	s.call(cm.CallRTU, s.conn.SendRTU(s.host.w.Now, s.say(sayRTU)))
	s.enter(up)
	s.begin()
}

// establish moves the queue pair to RTS as both sides agreed (C8).
func (s *side) establish() {
	h, w := s.host, s.host.w
	if err := h.HCA.Establish(w.Now, s.conn, s.sock.qp); err != nil {
		w.Fail("verb", "adapter %d: %s: establish: %v", h.Index, s, err)
		return
	}
	s.sock.fill()
	s.attr = s.sock.qp.Query()
	a, b := &s.attr, &s.peer.attr
	if !s.active { // the peer's queue pair moves later
		return
	}
	if a.DestQPN != s.peer.qpn || b.DestQPN != s.qpn || a.PathMTU != b.PathMTU || a.RQPSN != b.SQPSN || a.SQPSN != b.RQPSN ||
		a.MaxRDAtomic > b.MaxDestRDAtomic || b.MaxRDAtomic > a.MaxDestRDAtomic || a.AV.DGID.Addr() != s.peerAddr {
		w.Fail("terms", "adapter %d: the queue pairs of %s and %s do not fit:\n%+v\n%+v", h.Index, s, s.peer, *a, *b)
	}
}

// hesitate tells the peer to wait, at once or when it repeats its message (C7).
func (s *side) hesitate(later bool) {
	w := s.host.w
	code := w.plan.mra + uint8(s.rand.IntN(w.plan.spread))
	if later {
		s.cell(cm.CallMRALater)
		s.call(cm.CallMRALater, s.conn.PrepareMRA(w.Now, code, s.say(sayMRA)))
	} else {
		s.cell(cm.CallMRA)
		s.call(cm.CallMRA, s.conn.SendMRA(w.Now, code, s.say(sayMRA)))
	}
	s.hesitated = true
}

// reject refuses the peer's last message, or withdraws the program's own
// request.
func (s *side) reject(why mad.RejReason) {
	if s.phase == queried {
		s.answerSIDR(mad.SIDRRejected)
		return
	}
	next := over
	if s.phase == offered {
		next, s.withdrew = quiet, true // data of the peer may be in the network
	}
	s.cell(cm.CallREJ)
	s.call(cm.CallREJ, s.conn.SendREJ(s.host.w.Now, &cm.REJParams{Reason: why, PrivateData: s.say(sayREJ)}))
	s.enter(next)
	s.parted()
}

// answerSIDR answers a resolution (C9).
func (s *side) answerSIDR(status mad.SIDRStatus) {
	h, w := s.host, s.host.w
	s.grant = grant{status: status}
	if status == mad.SIDRValid {
		s.grant = grant{status, h.ud.num, h.qkey}
	}
	s.cell(cm.CallSIDRREP)
	s.call(cm.CallSIDRREP, s.conn.SendSIDRREP(w.Now, &cm.SIDRREPParams{
		Status: status, QPN: s.grant.qpn, QKey: s.grant.qkey, PrivateData: s.say(saySIDRREP),
	}))
	s.enter(over)
	s.parted()
}

// hangUp ends the connection (C5).
func (s *side) hangUp() {
	s.sock.stop()
	s.cell(cm.CallDREQ)
	s.call(cm.CallDREQ, s.conn.SendDREQ(s.host.w.Now, s.say(sayDREQ)))
	s.enter(leaving)
}

// agree answers the peer's DREQ.
func (s *side) agree() {
	s.cell(cm.CallDREP)
	s.call(cm.CallDREP, s.conn.SendDREP(s.host.w.Now, s.say(sayDREP)))
	s.enter(quiet)
	s.parted()
}

// reroute requests an alternate path: that of the other address family (C10).
func (s *side) reroute() {
	w, a := s.host.w, &s.asks
	alt := s.path()
	alt.Local, alt.Remote, alt.FlowLabel = s.host.address(!a.v6), a.to.address(!a.v6), uint32(s.rand.IntN(3))
	s.cell(cm.CallLAP)
	s.call(cm.CallLAP, s.conn.SendLAP(w.Now, &alt, s.say(sayLAP)))
	s.lap, s.limit, s.repeats = lapAsked, w.Now.Add(s.exchange()), repeats{}
	w.mark(markLAP)
}

// answerLAP answers the peer's LAP.
func (s *side) answerLAP(status mad.APRStatus) {
	s.cell(cm.CallAPR)
	s.call(cm.CallAPR, s.conn.SendAPR(s.host.w.Now, &cm.APRParams{Status: status, PrivateData: s.say(sayAPR)}))
	s.lap, s.hesitated = lapNone, false
}

// destroy destroys the connection for its program, in any state.
func (s *side) destroy() {
	w := s.host.w
	w.tell(s, "calls", cm.CallDestroy)
	s.cell(cm.CallDestroy)
	if s.phase == up { // the manager sends DREQ
		s.repeats = repeats{}
	}
	if attr := goodbyes[s.phase]; attr != 0 {
		s.owe(attr, "destroy")
	}
	s.withdrew = s.withdrew || s.phase == offered
	if s.phase != quiet {
		s.limit = w.Now.Add(s.exchange()).Add(mad.Timeout(s.ack))
	}
	s.destroyed, s.lap, s.hesitated, s.exam = true, lapNone, false, nil
	s.turn++
	s.conn.Destroy(w.Now)
	if s.sock != nil {
		s.sock.destroy()
	}
}
