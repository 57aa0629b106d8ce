package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/roce"
)

// receiveUC executes one UC packet. Nothing is answered: a message with a
// packet missing, too long, or without a receive is dropped whole, and its
// receive serves the next one (IBA 9.8.2).
func (r *receiver) receiveUC(now clock.Instant, p *Packet) {
	start, end := p.Info.Flags&roce.FlagStart != 0, p.Info.Flags&roce.FlagEnd != 0
	if refused := r.ep.refusesID(p); p.BTH.PSN == r.epsn {
		if refused {
			r.ep.drop(counters.DropICRC, p)
			return
		}
		r.ep.learnID(p)
	}
	if !r.ep.migrated() && !r.followUC(now, p) {
		return
	}
	if p.BTH.PSN != r.epsn || start && r.msg != messageNone {
		r.msg = messageNone // the message in progress lost its last packets
		r.dropping = true
	}
	r.epsn = p.BTH.PSN.Next()
	if start {
		r.dropping = false
		r.received = 0
	}
	if r.dropping {
		r.ep.drop(counters.DropMessage, p)
		return
	}
	if d, ok := r.checkUC(p, start); !ok {
		r.giveUp(d, p)
		return
	}
	if !r.established(now) {
		r.ep.drop(counters.DropState, p)
		return
	}
	switch f := operationOf(p.Info.Kind).execute(&r.qp.resp, p); f.syndrome {
	case 0:
	case roce.NAKRemoteOperational: // the receive is to blame
		r.fail(now)
		return
	default:
		r.giveUp(counters.DropAccess, p)
		return
	}
	if end {
		r.completeMessage(now, p)
	}
}

// place is the PSN window of a UC peer's requests. UC accepts a request at any
// PSN, so a forged request moves the expected PSN. The migration state in a
// request counts only near the last one that counted, or at the end of a run of
// consecutive requests as long as the number of windows to guess: the peer may
// have sent many that were lost with its path.
type place struct {
	next ib.PSN // PSN after the last request that counted
	last ib.PSN // the last request
	row  int    // number of consecutive requests that ended there
}

// places is the number of guesses that surely hit the PSN window.
const places = 1 << 24 / replayPSNs

// counts notes a request and reports whether its migration state counts.
func (l *place) counts(psn ib.PSN) bool {
	if psn == l.last.Next() {
		l.row++
	} else {
		l.row = 1
	}
	l.last = psn
	if psn.Distance(l.next) > replayPSNs && l.row < places {
		return false
	}
	l.next = psn.Next()
	return true
}

// followUC handles the migration state in a UC packet.
func (r *receiver) followUC(now clock.Instant, p *Packet) bool {
	before := r.peer
	if !r.peer.counts(p.BTH.PSN) {
		if p.sign != signNone {
			r.ep.drop(counters.DropMigration, p)
		}
		return p.sign == signNone
	}
	ok := r.ep.follow(now, p)
	if !ok && p.sign == signMoved {
		r.peer = before
	}
	return ok
}

// giveUp drops a packet and the rest of its message.
func (r *receiver) giveUp(d counters.Drop, p *Packet) {
	r.dropping, r.msg = true, messageNone
	r.ep.drop(d, p)
}

// checkUC checks opcode sequence, rights, receive, length and key of a UC
// packet. It reports why the message must be dropped.
func (r *receiver) checkUC(p *Packet, start bool) (counters.Drop, bool) {
	op := operationOf(p.Info.Kind)
	if !op.services.has(r.ep.typ) {
		return counters.DropService, false
	}
	if !start && r.msg != op.message {
		return counters.DropSequence, false
	}
	if r.ep.attr.AccessFlags&op.right != op.right {
		return counters.DropAccess, false
	}
	if start {
		op.asked(r.ep.env.Counters)
	}
	if !r.takeFor(p) {
		r.ep.env.Counters.OutOfBuffer++
		return counters.DropNoWQE, false
	}
	if f := r.checkLength(p); f.syndrome != 0 {
		return counters.DropLength, false
	}
	if f := r.checkKey(p); f.syndrome != 0 {
		return counters.DropAccess, false
	}
	return 0, true
}

// grhBytes is the room before the payload of a UD receive: the global routing
// header, or on RoCEv2 the IP header in its place.
const grhBytes = 40

// receiveUD executes one UD packet: the 40 bytes of GRH area and the payload
// go to the next receive. A message without a receive, or longer than it, is
// dropped; the receive serves the next one.
func (r *receiver) receiveUD(now clock.Instant, p *Packet) {
	switch {
	case !operationOf(p.Info.Kind).services.has(r.ep.typ):
		r.ep.drop(counters.DropService, p)
		return
	case len(p.Payload) > r.ep.env.Limits.ActiveMTU.Bytes():
		r.ep.drop(counters.DropLength, p)
		return
	case !r.takeFor(p):
		r.ep.env.Counters.OutOfBuffer++
		r.ep.drop(counters.DropNoWQE, p)
		return
	case !r.slot.malformed && grhBytes+len(p.Payload) > int(r.slot.length):
		r.ep.drop(counters.DropLength, p)
		return
	}
	var grh [grhBytes]byte
	putGRH(&grh, p)
	if !r.placeAt(grh[:], 0) || !r.placeAt(p.Payload, grhBytes) {
		r.fail(now)
		return
	}
	wc := ib.WC{
		Opcode: ib.WCRecv, Flags: ib.WCGRH, ByteLen: uint32(grhBytes + len(p.Payload)),
		SrcQP: p.DETH.SrcQP, PKeyIndex: r.ep.attr.PKeyIndex, SL: ib.SLIPv6,
	}
	if p.Data.Src.Is4() {
		wc.SL = ib.SLIPv4
	}
	if p.Info.Flags&roce.FlagImm != 0 {
		wc.Flags |= ib.WCWithImm
		wc.ImmData = p.Imm
	}
	r.ep.counts().RcvdMessages++
	r.complete(now, &wc, p.BTH.SE)
}

// hasRoom reports whether an end may append a packet of the given cost to a batch. A UC end may not
// while the receive buffer of the destination's socket, if on this host, is full; it asks again later.
func (e *End) hasRoom(now clock.Instant, b *fabric.Batch, cost uint32) bool {
	ep := &e.ep
	if ep.env.Sockets == nil || ep.typ != ib.UC {
		return true
	}
	if c := ep.socket; c == nil || c.To != flow.SocketOf(ep.path.Dst, ep.dest.qpn) {
		ep.socket = ep.env.Sockets.Credit(ep.path.Dst, ep.dest.qpn)
	}
	answer, again := ep.socket.Admit(now, ep.num, cost, ep.env.batch)
	switch answer {
	case flow.SocketFlush:
		b.Finish()
		e.Wake()
	case flow.SocketPause:
		ep.timers[timerPace] = min(ep.timers[timerPace], again)
	case flow.SocketOpen:
		return true
	}
	return false
}

// sendDatagram appends a UD message: one packet to the work request's own
// destination. It returns 0 when the batch is full. A destroyed handle, one of
// another port, or a message above the MTU fails the work request.
func (r *requester) sendDatagram(b *fabric.Batch, w *begunWR) (uint32, ib.WCStatus) {
	ep, to := r.ep, *r.queue.To(r.next) // read once, like every entry
	ah := ep.env.AHs.Get(ib.AHHandle(to.AH))
	switch {
	case ah == nil, ah.PD != r.qp.via.PD, ah.Path.Port != ep.path.Port:
		return 0, ib.WCLocQPOpErr
	case w.length > uint32(ep.env.Limits.ActiveMTU.Bytes()):
		return 0, ib.WCLocLenErr
	}
	p := ep.header(w.request().opcode(ep.service, true, true), r.flight.Next())
	p.BTH.DestQP = to.QPN & ib.QPNMask
	p.BTH.SE = w.flags&ib.SendSolicited != 0
	p.BTH.AckReq = ep.typ == ib.GSI // Linux asks for it on QP1; receivers ignore it
	p.DETH = roce.DETH{QKey: to.QKey, SrcQP: ep.num}
	if to.QKey&ib.QKeyControlled != 0 {
		p.DETH.QKey = ep.attr.QKey
	}
	w.request().operation().encode(p, r.queue.At(r.next), 0, w.length)
	path := ah.Path
	if ep.path.SrcPort != 0 {
		path.SrcPort = ep.path.SrcPort
	}
	seg, payload, id := ep.append(b, &path.Path, w.length)
	if seg == nil {
		return 0, ib.WCSuccess
	}
	if !r.gather(payload, w, 0) {
		b.Unappend()
		return 0, ib.WCLocProtErr
	}
	ep.seal(seg, packet.Prefix(&path.Path, len(seg), id))
	ep.counts().SentBytes += uint64(w.length)
	size := ipLength(&path, seg)
	ep.pace.Sent(ep.env.now, size)
	ah.pace.Sent(ep.env.now, size)
	return 1, ib.WCSuccess
}

// BlockedBy reports whether the queue pair sent this message to a multicast group itself, and was
// created not to receive its own (ib.CreateBlockSelfMcastLB). The message has a local source.
func (p *Packet) BlockedBy(q *QP) bool { return q.in.blocksSelf && p.DETH.SrcQP == q.ep.num }

// putGRH fills the 40 bytes before a UD payload with the IP header that the
// packet came with: IPv6 whole, IPv4 in the last 20 bytes.
func putGRH(b *[grhBytes]byte, p *Packet) {
	d := p.Data
	h := ipudp.Header{
		Src: d.Src, Dst: d.Dst, ID: p.ID, NoDF: d.NoDF, TClass: d.TClass, HopLimit: d.HopLimit, FlowLabel: d.FlowLabel,
	}
	if d.Src.Is4() {
		h.PutIP(b[grhBytes-ipudp.IPv4Len:], p.Size)
		return
	}
	h.PutIP(b[:], p.Size)
}
