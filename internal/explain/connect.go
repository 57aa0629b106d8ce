package explain

import (
	"container/list"
	"fmt"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// linkKey identifies a connection, or the look-up of a service, by its active side.
type linkKey struct {
	addr netip.Addr
	id   uint32
	sidr bool
}

// link is the exchange of two connection managers about a connection.
type link struct {
	key     linkKey
	peer    netip.Addr
	passive uint32 // the peer's communication ID; 0 if not known
	service string
	req     mad.REQ
	asked   sent  // REQ or SIDR_REQ
	reply   sent  // REP or SIDR_REP
	ready   sent  // RTU
	offered offer // LAP
	leave   [2]sent
	left    bool // DREP
	over    bool // REJ
	slow    bool // MRA
	log     conversation
	element *list.Element
}

// sent counts the transmissions of a message.
type sent struct {
	n                int
	in, second, last instant // the first, the first repeat and the last
}

// offer is an offer of an alternate path.
type offer struct {
	sent
	transaction uint64 // the same in all repeats
	answered    bool   // by an APR
}

// again counts a message and reports whether it is a repeat. A message that comes
// again at once is a copy in the capture: no timer is that short.
func (s *sent) again(now instant) bool {
	again := s.n > 0 && now.since(s.last) < copied
	s.last = now
	if again {
		return false
	}
	switch s.n++; s.n {
	case 1:
		s.in = now
	case 2:
		s.second = now
	}
	return s.n > 1
}

// manage processes a management datagram.
func (f *Follower) manage(p *pcapfile.Packet, m *mad.MAD) {
	h := m.Header()
	if h.Class != mad.ClassCM {
		return
	}
	switch h.AttrID {
	case mad.AttrREQ:
		f.connectRequest(p, m)
	case mad.AttrSIDRREQ:
		f.lookUp(p, m)
	case mad.AttrSIDRREP:
		f.lookedUp(p, m)
	case mad.AttrREP:
		f.connectReply(p, m)
	case mad.AttrMRA, mad.AttrREJ, mad.AttrRTU, mad.AttrDREQ, mad.AttrDREP, mad.AttrLAP, mad.AttrAPR:
		f.further(p, m, h.AttrID)
	}
}

// open returns the link with a key. It creates the link if there is none.
func (f *Follower) open(p *pcapfile.Packet, key linkKey) *link {
	if l := f.links[key]; l != nil {
		return l
	}
	if len(f.links) >= f.cfg.Conversations {
		f.endLink(f.order.Back())
		f.report.Ended++
	}
	f.ids++
	l := &link{key: key, peer: p.Dst}
	l.log = conversation{id: f.ids, service: roce.ServiceUD, first: f.now, paired: "cm", ends: [2]end{{p.Src, ib.QPNGSI}, {p.Dst, ib.QPNGSI}}}
	l.element = f.order.PushFront(l)
	f.links[key] = l
	return l
}

// side returns the side that sent a packet of the exchange: 0 for the active one.
func (l *link) side(p *pcapfile.Packet) int {
	if p.Src != l.key.addr {
		return 1
	}
	return 0
}

// log adds a message to the log of a link.
func (f *Follower) log(l *link, p *pcapfile.Packet, text string) {
	side := l.side(p)
	f.sight.conv, f.sight.side = &l.log, side
	l.log.packets++
	l.log.last = f.now
	l.log.bytes += len(f.pkt.Payload)
	l.log.ladder.add(rung{Record: f.now.record, At: f.now.at, Side: side, text: text})
}

// overdueAfter returns the longest silence after which the sender may still repeat the message.
func (s *sent) overdueAfter() time.Duration {
	return max(sweep, silenceFactor*s.last.since(s.in)/time.Duration(max(s.n-1, 1)))
}

func (f *Follower) connectRequest(p *pcapfile.Packet, m *mad.MAD) {
	var req mad.REQ
	req.Decode(m)
	l := f.open(p, linkKey{addr: p.Src, id: req.LocalCommID})
	f.log(l, p, mad.Describe(m))
	if l.asked.again(f.now) {
		if !l.slow {
			l.log.find(f.now, cmREQRepeated, "to %v, %v after the first", req.ServiceID, round(f.now.since(l.asked.in)))
		}
		return
	}
	if l.asked.in == f.now {
		l.req, l.service = req, req.ServiceID.String()
	}
}

func (f *Follower) connectReply(p *pcapfile.Packet, m *mad.MAD) {
	var rep mad.REP
	rep.Decode(m)
	l := f.links[linkKey{addr: p.Dst, id: rep.RemoteCommID}]
	if l == nil {
		return // the REQ was before the capture
	}
	f.log(l, p, mad.Describe(m))
	l.passive = rep.LocalCommID
	if l.reply.again(f.now) {
		if !l.slow {
			l.log.find(f.now, cmREPRepeated, "%v after the first", round(f.now.since(l.reply.in)))
		}
		return
	}
	if l.reply.in == f.now {
		f.agree(l, p, &rep)
	}
}

// agree creates the conversation of the two queue pairs of a connection.
func (f *Follower) agree(l *link, p *pcapfile.Packet, rep *mad.REP) {
	service, active, passive := roce.ServiceRC, l.req.LocalQPN, rep.LocalQPN
	switch l.req.Transport {
	case mad.TransportUC:
		service = roce.ServiceUC
	case mad.TransportRD:
		service, active, passive = roce.ServiceRD, ib.QPN(l.req.LocalEECN), ib.QPN(rep.LocalEECN)
	case mad.TransportRC:
	default:
		return
	}
	there := flowKey{src: p.Dst, dst: p.Src, to: passive, service: service}
	back := flowKey{src: p.Src, dst: p.Dst, to: active, service: service}
	for _, k := range [...]flowKey{there, back} {
		if old, ok := f.flows[k]; ok {
			f.end(old.conv) // an earlier queue pair had the same number
		}
	}
	c := &conversation{service: service, paired: "cm", ends: [2]end{{p.Dst, active}, {p.Src, passive}}}
	f.admit(c)
	f.flows[there], f.flows[back] = flow{c, 0}, flow{c, 1}
	f.byQPN[active], f.byQPN[passive] = c, c
	// Each side sets the RNR retry count of the other side's queue pair.
	c.rnrRetry = [2]retryCount{{rep.RNRRetryCount, true}, {l.req.RNRRetryCount, true}}
	if l.req.PathMTU.Valid() {
		c.mtu = l.req.PathMTU.Bytes()
	}
}

// find returns the link of a message between two addresses, by the IDs of its
// sender and its receiver.
func (f *Follower) find(p *pcapfile.Packet, local, remote uint32) *link {
	if l := f.links[linkKey{addr: p.Dst, id: remote}]; l != nil && l.peer == p.Src {
		return l
	}
	if l := f.links[linkKey{addr: p.Src, id: local}]; l != nil && l.peer == p.Dst {
		return l
	}
	return nil
}

// further processes the messages after REQ and REP.
func (f *Follower) further(p *pcapfile.Packet, m *mad.MAD, attr mad.AttrID) {
	var rtu mad.RTU // all of them begin with both IDs
	rtu.Decode(m)
	l := f.find(p, rtu.LocalCommID, rtu.RemoteCommID)
	if l == nil {
		return
	}
	f.log(l, p, mad.Describe(m))
	side := l.side(p)
	switch attr {
	case mad.AttrMRA:
		l.slow = true
		l.log.find(f.now, cmSlow, "from %v", p.Src)
	case mad.AttrREJ:
		f.rejected(l, p, m, side)
	case mad.AttrRTU:
		l.ready.again(f.now)
	case mad.AttrDREQ:
		if l.leave[side].again(f.now) {
			l.log.find(f.now, cmDREQRepeated, "%v after the first", round(f.now.since(l.leave[side].in)))
		}
	case mad.AttrDREP:
		l.left = true
	case mad.AttrLAP:
		l.offer(f.now, m.Header().TID)
	case mad.AttrAPR:
		l.offered.answered = true
		var apr mad.APR
		apr.Decode(m)
		if apr.Status != mad.APRAccepted {
			l.log.find(f.now, cmAlternateRefused, "%v, from %v", apr.Status, p.Src)
		}
	}
}

// offer processes a LAP.
func (l *link) offer(now instant, transaction uint64) {
	o := &l.offered
	if o.transaction != transaction {
		*o = offer{transaction: transaction}
	}
	if o.again(now) && !l.slow {
		l.log.find(now, cmLAPRepeated, "%v after the first", round(now.since(o.in)))
	}
}

// rejected processes a REJ from a side. If its sender gives up an unanswered
// request, the missing answer is the finding.
func (f *Follower) rejected(l *link, p *pcapfile.Packet, m *mad.MAD, side int) {
	var rej mad.REJ
	rej.Decode(m)
	rule, unanswered := rejectRule(rej.Reason), l.unanswered()
	about := "about its " + rej.Message.String()
	if rej.Message == mad.WhichOther {
		about = "about no message"
	}
	said := fmt.Sprintf("%v (%d), %s, from %v", rej.Reason, uint16(rej.Reason), about, p.Src)
	if rule == cmGaveUp && side == 0 && unanswered < numRules {
		rule = unanswered
		l.log.find(f.now, rule, "%s; then %s", l.vain(), said)
		l.log.began(rule, l.asked.second)
	} else {
		l.log.find(f.now, rule, "%s; for %s", said, l.service)
	}
	l.over = true
	l.log.onPage(rule, rejectPage(rej.Reason))
}

// rejectRule returns the rule for a reason.
func rejectRule(r mad.RejReason) ruleID {
	switch r {
	case mad.RejInvalidServiceID:
		return cmNobodyListens
	case mad.RejConsumer:
		return cmRefused
	case mad.RejTimeout:
		return cmGaveUp
	case mad.RejStaleConnection, mad.RejDuplicateCommID:
		return cmStale
	case mad.RejNoQP, mad.RejNoEEC, mad.RejNoResources, mad.RejInsufficientResponderResources, mad.RejRDCNotExist:
		return cmNoResources
	case mad.RejUnsupportedRequest, mad.RejInvalidTransport, mad.RejInvalidMTU, mad.RejInvalidRNRRetry,
		mad.RejInvalidClassVersion, mad.RejVendorOptionUnsupported:
		return cmUnsupported
	}
	if r >= mad.RejInvalidGID && r <= mad.RejPortRedirect || r == mad.RejInvalidFlowLabel || r == mad.RejInvalidAltFlowLabel {
		return cmBadPath
	}
	return cmOtherReject
}

func (f *Follower) lookUp(p *pcapfile.Packet, m *mad.MAD) {
	var req mad.SIDRREQ
	req.Decode(m)
	l := f.open(p, linkKey{p.Src, req.RequestID, true})
	l.service = req.ServiceID.String()
	f.log(l, p, mad.Describe(m))
	if l.asked.again(f.now) {
		l.log.find(f.now, sidrRepeated, "%s, %v after the first", l.service, round(f.now.since(l.asked.in)))
	}
}

func (f *Follower) lookedUp(p *pcapfile.Packet, m *mad.MAD) {
	var rep mad.SIDRREP
	rep.Decode(m)
	l := f.links[linkKey{p.Dst, rep.RequestID, true}]
	if l == nil {
		return
	}
	f.log(l, p, mad.Describe(m))
	switch {
	case l.reply.again(f.now):
	case rep.Status == mad.SIDRValid:
		f.qkeys.announce(qpAt{p.Src, rep.QPN}, qkeyOf{rep.QKey, f.now.record, true})
	default:
		l.log.find(f.now, sidrRefused, "%v (%d), from %v; for %s", rep.Status, uint8(rep.Status), p.Src, l.service)
	}
}

// endLink adds findings for unanswered messages and adds the link to the report.
func (f *Follower) endLink(e *list.Element) {
	l := f.order.Remove(e).(*link)
	delete(f.links, l.key)
	log := &l.log
	if id := l.unanswered(); id < numRules {
		log.find(l.asked.second, id, "%s", l.vain())
		log.awaits(id, l.asked.last.at, l.asked.overdueAfter())
	} else if l.asked.n == 1 && l.reply.n == 0 && !l.over {
		log.find(l.asked.in, unfinished, "the request for %s", l.service)
	}
	for side := range l.leave {
		if s := &l.leave[side]; s.n > 1 && !l.left {
			log.find(s.second, cmDREQUnanswered, "%d times in %v, from %v", s.n, round(s.last.since(s.in)), log.ends[side].addr)
		}
	}
	if o := &l.offered; o.n > 1 && !o.answered && !l.slow {
		log.find(o.second, cmLAPUnanswered, "%d times in %v", o.n, round(o.last.since(o.in)))
	}
	f.report.addLink(l)
}

// unanswered returns the rule for a request that was repeated and not answered, or
// numRules if there is none.
func (l *link) unanswered() ruleID {
	switch {
	case l.over || l.slow || l.asked.n < 2 || l.reply.n > 0:
		return numRules
	case l.key.sidr:
		return sidrUnanswered
	}
	return cmREQUnanswered
}

// vain describes the unanswered request.
func (l *link) vain() string {
	return fmt.Sprintf("%d times in %v, for %s at %v", l.asked.n, round(l.asked.last.since(l.asked.in)), l.service, l.peer)
}
