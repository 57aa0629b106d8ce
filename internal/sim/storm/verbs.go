package storm

import (
	"errors"
	"net/netip"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// call records a call that must succeed and send its message.
func (p *program) call(verb cm.Input, err error) {
	w := p.host.w
	w.tell(p.side, "calls", verb)
	if err != nil {
		w.Fail("verb", "adapter %d: %s, %v: %v: %v", p.host.Index, p, p.phase, verb, err)
	}
	if attr := messageOf[verb]; attr != 0 {
		p.owe(attr, verb.String())
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
func (p *program) request() bool {
	h, w, a := p.host, p.host.w, &p.asks
	p.attempt(p.try+1, nil)
	p.peerAddr, p.qpn = a.to.address(a.v6), 0
	var err error
	verb, next := cm.CallREQ, calling
	if p.kind == datagrams {
		verb, next = cm.CallSIDRREQ, resolving
	}
	p.cell(verb)
	h.step.givesWay = h.crowded(netip.Addr{})
	if p.kind == datagrams {
		p.interval = mad.Timeout(a.response)
		err = p.conn.SendSIDRREQ(w.Now, &cm.SIDRREQParams{
			Service: a.service, Path: p.path(), ResponseTimeout: a.response, MaxRetries: a.retries, PrivateData: p.say(mad.AttrSIDRREQ),
		})
	} else {
		p.interval, p.ack = 2*mad.Timeout(a.lifetime)+mad.Timeout(a.response), a.lifetime+1
		p.qpn, p.attr = p.sock.num, ib.QPAttr{}
		err = p.conn.SendREQ(w.Now, &cm.REQParams{
			Service: a.service, Transport: transportOf[p.kind], QPN: p.qpn, Path: p.path(),
			ResponderResources: a.serves, InitiatorDepth: a.depth, RetryCount: 3 + a.depth%5, RNRRetryCount: 7,
			ResponseTimeout: a.response, MaxRetries: a.retries, PrivateData: p.say(mad.AttrREQ),
		})
	}
	h.step.givesWay = false
	if errors.Is(err, ib.ENOMEM) && w.plan.limits != (cm.Limits{}) {
		w.tell(p.side, "has no room for", verb)
		return false
	}
	p.call(verb, err)
	p.retries = a.retries
	p.sent, p.rcvd, p.pending = 0, 0, 0
	h.adopt(p.side)
	p.enter(next)
	return true
}

var transportOf = [numKinds]mad.TransportService{reliable: mad.TransportRC, unreliable: mad.TransportUC}

// accept answers a request with REP, or with SIDR_REP.
func (p *program) accept() {
	h, w := p.host, p.host.w
	if p.phase == queried {
		p.answerSIDR(mad.SIDRValid)
		return
	}
	if p.sock = h.take(p.kind, p.rand); p.sock == nil {
		p.reject(mad.RejNoQP)
		return
	}
	p.sock.owner, p.qpn = p.side, p.sock.num
	serves, depth := p.conn.Resources()
	if a := &p.peer.asks; serves != a.depth || depth != a.serves {
		w.Fail("terms", "adapter %d: %s is asked to serve %d and to have %d outstanding, want %d and %d", h.Index, p, serves, depth, a.depth, a.serves)
	}
	serves, depth = uint8(p.rand.IntN(int(serves)+1)), uint8(p.rand.IntN(int(depth)+1))
	p.conn.SetResources(serves, depth)
	p.establish()
	p.cell(cm.CallREP)
	p.call(cm.CallREP, p.conn.SendREP(w.Now, &cm.REPParams{
		QPN: p.qpn, ResponderResources: serves, InitiatorDepth: depth, RNRRetryCount: 7, PrivateData: p.say(mad.AttrREP),
	}))
	p.enter(offered)
}

// confirm prepares the queue pair and answers REP with RTU.
func (p *program) confirm() {
	p.establish()
	p.cell(cm.CallRTU)
	p.call(cm.CallRTU, p.conn.SendRTU(p.host.w.Now, p.say(mad.AttrRTU)))
	p.enter(up)
	p.begin()
}

// establish moves the queue pair to RTS as both sides agreed (C8).
func (p *program) establish() {
	h, w := p.host, p.host.w
	if err := h.HCA.Establish(w.Now, p.conn, p.sock.qp); err != nil {
		w.Fail("verb", "adapter %d: %s: establish: %v", h.Index, p, err)
		return
	}
	p.sock.fill()
	p.attr = p.sock.qp.Query()
	a, b := &p.attr, &p.peer.attr
	if !p.active { // the peer's queue pair moves later
		return
	}
	if a.DestQPN != p.peer.qpn || b.DestQPN != p.qpn || a.PathMTU != b.PathMTU || a.RQPSN != b.SQPSN || a.SQPSN != b.RQPSN ||
		a.MaxRDAtomic > b.MaxDestRDAtomic || b.MaxRDAtomic > a.MaxDestRDAtomic || a.AV.DGID.Addr() != p.peerAddr {
		w.Fail("terms", "adapter %d: the queue pairs of %s and %s do not fit:\n%+v\n%+v", h.Index, p, p.peer, *a, *b)
	}
}

// hesitate tells the peer to wait, at once or when it repeats its message (C7).
func (p *program) hesitate(later bool) {
	w := p.host.w
	code := w.plan.mra + uint8(p.rand.IntN(w.plan.spread))
	if later {
		p.cell(cm.CallMRALater)
		p.call(cm.CallMRALater, p.conn.PrepareMRA(w.Now, code, p.say(mad.AttrMRA)))
	} else {
		p.cell(cm.CallMRA)
		p.call(cm.CallMRA, p.conn.SendMRA(w.Now, code, p.say(mad.AttrMRA)))
	}
	p.hesitated = true
}

// reject refuses the peer's last message, or withdraws the program's own
// request.
func (p *program) reject(why mad.RejReason) {
	if p.phase == queried {
		p.answerSIDR(mad.SIDRRejected)
		return
	}
	next := over
	if p.phase == offered {
		next, p.withdrew = quiet, true // data of the peer may be in the network
	}
	p.cell(cm.CallREJ)
	p.call(cm.CallREJ, p.conn.SendREJ(p.host.w.Now, &cm.REJParams{Reason: why, PrivateData: p.say(mad.AttrREJ)}))
	p.enter(next)
	p.parted()
}

// answerSIDR answers a resolution (C9).
func (p *program) answerSIDR(status mad.SIDRStatus) {
	h, w := p.host, p.host.w
	p.grant = grant{status: status}
	if status == mad.SIDRValid {
		p.grant = grant{status, h.ud.num, h.qkey}
	}
	p.cell(cm.CallSIDRREP)
	p.call(cm.CallSIDRREP, p.conn.SendSIDRREP(w.Now, &cm.SIDRREPParams{
		Status: status, QPN: p.grant.qpn, QKey: p.grant.qkey, PrivateData: p.say(mad.AttrSIDRREP),
	}))
	p.enter(over)
	p.parted()
}

// hangUp ends the connection (C5).
func (p *program) hangUp() {
	p.sock.stop()
	p.cell(cm.CallDREQ)
	p.call(cm.CallDREQ, p.conn.SendDREQ(p.host.w.Now, p.say(mad.AttrDREQ)))
	p.enter(leaving)
}

// agree answers the peer's DREQ.
func (p *program) agree() {
	p.cell(cm.CallDREP)
	p.call(cm.CallDREP, p.conn.SendDREP(p.host.w.Now, p.say(mad.AttrDREP)))
	p.enter(quiet)
	p.parted()
}

// reroute requests an alternate path, that of the other address family (C10), unless an answer
// to the last one is missing.
func (p *program) reroute() {
	if p.lap != lapNone {
		return
	}
	w, a := p.host.w, &p.asks
	alt := p.path()
	alt.Local, alt.Remote, alt.FlowLabel = p.host.address(!a.v6), a.to.address(!a.v6), uint32(p.rand.IntN(3))
	p.cell(cm.CallLAP)
	p.call(cm.CallLAP, p.conn.SendLAP(w.Now, &alt, p.say(mad.AttrLAP)))
	p.lap, p.limit, p.repeats = lapAsked, w.Now.Add(p.exchange()), repeats{}
	w.Mark("alternate paths asked for")
}

// answerLAP answers the peer's LAP.
func (p *program) answerLAP(status mad.APRStatus) {
	p.cell(cm.CallAPR)
	p.call(cm.CallAPR, p.conn.SendAPR(p.host.w.Now, &cm.APRParams{Status: status, PrivateData: p.say(mad.AttrAPR)}))
	p.lap, p.hesitated = lapNone, false
}

// destroy destroys the connection for its program, in any state.
func (p *program) destroy() {
	w := p.host.w
	w.tell(p.side, "calls", cm.CallDestroy)
	p.cell(cm.CallDestroy)
	if p.phase == up { // the manager sends DREQ
		p.repeats = repeats{}
	}
	if attr := goodbyes[p.phase]; attr != 0 {
		p.owe(attr, "destroy")
	}
	p.withdrew = p.withdrew || p.phase == offered
	if p.phase != quiet {
		p.limit = w.Now.Add(p.exchange()).Add(mad.Timeout(p.ack))
	}
	p.destroyed, p.lap, p.hesitated, p.exam = true, lapNone, false, nil
	p.turn++
	p.conn.Destroy(w.Now)
	if p.sock != nil {
		p.sock.destroy()
	}
}
