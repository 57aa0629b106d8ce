package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// responder answers the requests of the peer of a reliable service: it executes
// them in order, once, and acknowledges them.
type responder struct {
	ep  *endpoint
	end *End
	in  *receiver

	msn     ib.MSN  // messages completed
	nakSent bool    // a NAK is owed or out and the expected packet has not come: stay silent
	ahead   ib.PSN  // with nakSent: the last packet that was dropped for being ahead
	early   *keeper // requests beyond the one that is missing
	port    uint16  // from which the last request came that was executed; 0: none was
	row     uint8   // requests in a row that were executed from there, up to demandAfter
	doubt   doubt   // a request that was asked for again before it was believed
	late    bool    // the request in hand was kept beyond a gap
	first   bool    // responses go before requests in the next batch
	peer    ib.QPN  // RD: whose request came last
	resend  resend

	// shut is the NAK that an EE context has answered with: until its peer begins
	// anew, nothing more is executed.
	shut roce.Syndrome

	kept  resources
	reply reply
	dying fault // an error whose NAK has not gone out yet; nothing more is accepted
}

// fault is an error of the responder: what the peer is told and what this
// side reports.
type fault struct {
	syndrome roce.Syndrome // NAK code; 0 is no fault
	status   ib.WCStatus   // of the receive work request in hand
	event    ib.EventType  // raised when there is none
	cause    string
}

// The faults, by what the peer is told (E10, E14–E17).
func invalidRequest(status ib.WCStatus, cause string) fault {
	return fault{syndrome: roce.NAKInvalidRequest, status: status, event: ib.EventQPReqErr, cause: cause}
}

func remoteAccess(cause string) fault {
	return fault{syndrome: roce.NAKRemoteAccess, status: ib.WCLocAccessErr, event: ib.EventQPAccessErr, cause: cause}
}

func remoteOperational(cause string) fault {
	return fault{syndrome: roce.NAKRemoteOperational, status: ib.WCLocProtErr, event: ib.EventQPReqErr, cause: cause}
}

// receiveRequest executes one RC request packet: PSN, opcode sequence, right
// to the operation, resources, lengths, keys; then the work itself, its
// completion and its acknowledgement (IBA 9.7.4.1).
func (r *responder) receiveRequest(now clock.Instant, p *Packet) {
	if r.dying.syndrome != 0 {
		r.ep.drop(counters.DropState, p)
		return
	}
	r.peer = p.DETH.SrcQP
	expected := r.in.epsn
	if r.request(now, p); r.in.epsn != expected && p.BTH.PSN.Diff(expected) >= 0 {
		r.resend.executed(p, r.in.epsn.Prev(), r.early.holds())
		if r.early.holds() {
			r.catchUp(now, p.BTH.AckReq)
		}
	}
	if r.owes() {
		r.end.wake()
	}
}

// catchUp executes the requests that were kept, as if they came now, up to the
// next that is missing, and asks for that. What closes a gap is acknowledged
// unasked: the peer may be waiting for nothing else. In the middle of a gap the
// peer is told how far it is only if the packet before asked: else the rest may
// be on its way, and a NAK would have it sent once more. The end of a message that
// the peer will send again stays kept, and a NAK for it is as good as sent.
func (r *responder) catchUp(now clock.Instant, asked bool) {
	selected := asked
	for r.dying.syndrome == 0 {
		if k := r.early.at(r.in.epsn); k != nil && r.resend.comesAgain(&k.Packet, selected) {
			r.nakSent = true
			return
		}
		k := r.early.take(now, r.in.epsn)
		if k == nil {
			break
		}
		asked, k.BTH.AckReq = true, true
		r.late = true
		r.request(now, &k.Packet)
		r.late = false
		r.ep.env.Keep.put(k)
	}
	if asked && r.early.holds() && !r.nakSent && r.dying.syndrome == 0 {
		r.missing()
	}
}

func (r *responder) request(now clock.Instant, p *Packet) {
	switch d := p.BTH.PSN.Diff(r.in.epsn); {
	case p.Info.Kind == roce.KindResync && r.resyncs(p, d):
	case d > 0:
		if p.sign != signNone { // the peer begins with one that is expected, or was
			r.ep.drop(counters.DropMigration, p)
			return
		}
		r.outOfSequence(now, p)
		return
	case d < 0:
		if p.sign == signNone || r.ep.mig.followReplay(now, p, uint32(-d)) {
			r.duplicate(now, p)
		}
		return
	case r.awaits(now, p):
		return
	}
	if r.ep.ipid.refuses(p) {
		r.ep.drop(counters.DropICRC, p)
		return
	}
	if r.row == demandAfter && !r.late && r.doubts(p) {
		return
	}
	if r.ep.mig.state != ib.MIGRATED && !r.ep.mig.follow(now, p) {
		return
	}
	if r.end.eec != nil && !r.end.eec.admit(now, p) {
		return
	}
	if f := r.checkOpcode(p); f.syndrome != 0 {
		r.judge(p, f)
		return
	}
	if !r.in.established(now) || r.end.eec != nil && !r.in.qp.in.established(now) {
		r.ep.drop(counters.DropState, p)
		return
	}
	if r.ep.env.Inject != nil && r.injected(p) {
		return
	}
	if !r.in.takeFor(p) {
		r.notReady(p)
		return
	}
	if !r.carryOut(p) {
		return
	}
	r.ep.ipid.learn(p)
	r.from(p.Data.SrcPort)
	r.in.epsn = r.in.epsn.Add(operationOf(p.Info.Kind).requestPSNs(p, r.ep.mtu))
	r.resend.long = endsLong(p)
	r.gapClosed(p)
	if p.Info.Flags&roce.FlagEnd != 0 {
		r.msn = r.msn.Next()
		r.in.completeMessage(now, p)
	}
	r.acknowledge(p)
}

// carryOut checks and executes a request, and reports whether that is done. If not, the request is
// refused, or it is as if it had not come.
func (r *responder) carryOut(p *Packet) bool {
	f := r.in.checkLength(p)
	if f.syndrome == 0 {
		f = r.in.checkKey(p)
	}
	msg, received := r.in.msg, r.in.received
	if f.syndrome == 0 {
		f = r.execute(p)
	}
	if f.syndrome == 0 {
		return true
	}
	if r.judge(p, f) {
		r.in.msg, r.in.received, r.in.slot.spare = msg, received, msg == messageNone
	}
	return false
}

// awaits keeps p, the end of a message whose turn it is, if the peer will send it again, and
// reports whether it does. That p is the first to come with its PSN, right behind a packet
// that was late, shows that the peer sent it before it went back.
func (r *responder) awaits(now clock.Instant, p *Packet) bool {
	if r.nakSent || p.BTH.PSN == r.resend.at.Next() || !r.resend.comesAgain(p, p.BTH.AckReq) ||
		p.sign != signNone || !r.keep(now, p) {
		return false
	}
	r.nakSent = true
	return true
}

// outOfSequence answers the first packet after a gap with the PSN that is
// expected, once (E8).
func (r *responder) outOfSequence(now clock.Instant, p *Packet) {
	if r.shut != 0 {
		r.ep.drop(counters.DropSequence, p)
		return
	}
	kept := r.keep(now, p)
	if r.nakSent {
		if p.BTH.PSN.Diff(r.ahead) > 0 {
			r.ahead = p.BTH.PSN
		}
		if !kept {
			r.ep.drop(counters.DropSequence, p)
		}
		return
	}
	r.ahead = p.BTH.PSN
	r.missing()
}

// missing asks for the expected packet.
func (r *responder) missing() {
	r.ep.env.Counters.OutOfSeqRequest++
	r.nakSent = true
	r.reply.nak(roce.NAKSequence, r.in.epsn)
}

// keep holds a request until those before it have come, and reports whether it
// does: not a copy of one that is held, nor what comes from elsewhere than the
// peer's requests did. Whether it may be executed is judged then.
func (r *responder) keep(now clock.Instant, p *Packet) bool {
	if r.ep.env.Keep == nil || r.early.has(p.BTH.PSN) || r.ep.ipid.suspects(p) || r.port != 0 && r.port != p.Data.SrcPort {
		return false
	}
	if r.early == nil {
		r.early = &keeper{pool: r.ep.env.Keep}
	}
	if !r.early.keep(now, r.in.epsn, p) {
		r.ep.env.Counters.EarlyRefused++
		return false
	}
	r.ep.env.Counters.EarlyKept++
	return true
}

// notReady answers a packet that needs a receive work request when there is
// none (E12). The rest of the burst is dropped in silence.
func (r *responder) notReady(p *Packet) {
	r.ep.env.Counters.SendRNRErr++
	s := roce.RNRNAK(r.in.qp.ep.attr.MinRNRTimer)
	if r.end.eec != nil {
		r.close(s)
	}
	r.nakSent, r.ahead = true, p.BTH.PSN
	r.reply.nak(s, p.BTH.PSN)
}

// gapClosed is called when an expected packet was executed. A NAK that has
// not left yet asks for what has come; what it is to ask for is what was
// dropped since and is still missing. Without that it is void, and what it
// would have acknowledged is acknowledged.
func (r *responder) gapClosed(p *Packet) {
	if !r.nakSent {
		return
	}
	r.nakSent = false
	if r.reply.kind != replyNAK { // it has left: the peer goes back to there
		r.resend.closed(p, r.in.epsn.Prev())
		return
	}
	r.reply = reply{}
	if r.ahead.Diff(r.in.epsn) >= 0 {
		r.nakSent = true
		r.reply.nak(roce.NAKSequence, r.in.epsn)
		return
	}
	r.reply.ack(r.in.epsn.Prev())
}

// from notes which port a request came from that was executed.
func (r *responder) from(port uint16) {
	if port != r.port {
		r.port, r.row = port, 0
	}
	if r.row < demandAfter {
		r.row++
	}
	r.doubt = doubt{}
	r.early.from(port)
}

// doubts reports whether the request p is dropped because a stranger may have sent it: it came
// from a new port, or it was kept beyond a gap. The responder asks for it again and believes
// the second copy.
func (r *responder) doubts(p *Packet) bool {
	d := doubt{raised: true, psn: p.BTH.PSN, una: p.BTH.PSN}
	other := r.port != 0 && r.port != p.Data.SrcPort
	if !(other && r.doubt != d || r.late) || r.end.eec != nil || r.ep.env.Settings.NoChallenge || p.sign != signNone {
		return false
	}
	r.doubt = d
	r.ep.drop(counters.DropDoubt, p)
	r.ahead = p.BTH.PSN
	r.missing()
	return true
}

// judge refuses the request p for a fault. It reports true if p may be a stranger's: then it is
// as if p had not come.
func (r *responder) judge(p *Packet, f fault) (doubted bool) {
	if r.doubts(p) {
		return true
	}
	r.refuse(p.BTH.PSN, f)
	return false
}

// refuse ends the connection: the NAK goes out after the responses that are
// still owed, and then the QP fails. An EE context goes on.
func (r *responder) refuse(psn ib.PSN, f fault) {
	if r.end.eec != nil {
		r.end.eec.refuse(psn, f)
		return
	}
	r.dying = f
	r.reply.nak(f.syndrome, psn)
}

// die reports the fault whose NAK has gone out and fails the QP.
func (r *responder) die(now clock.Instant) {
	f := r.dying
	r.dying = fault{}
	if r.in.slot.taken && !r.in.slot.spare {
		r.in.complete(now, &ib.WC{Status: f.status}, false)
	} else {
		r.ep.raise(f.event)
	}
	r.in.qp.fail(now, f.cause)
}

// checkOpcode checks that the opcode follows the one before, that the
// operation exists here, and that the QP allows it (E10).
func (r *responder) checkOpcode(p *Packet) fault {
	op := operationOf(p.Info.Kind)
	start := p.Info.Flags&roce.FlagStart != 0
	limit := uint32(r.ep.env.Limits.MaxDestRDAtomic)
	switch {
	case !op.provided():
		return invalidRequest(ib.WCRemInvReqErr, "operation not supported")
	case start != (r.in.msg == messageNone), !start && op.message != r.in.msg:
		return invalidRequest(ib.WCRemInvReqErr, "opcode out of sequence")
	case r.in.qp.ep.attr.AccessFlags&op.right != op.right:
		return invalidRequest(ib.WCRemInvReqErr, "QP does not allow "+op.right.String())
	case op.answered() && !r.kept.ready(uint32(r.ep.attr.MaxDestRDAtomic), limit):
		return invalidRequest(ib.WCRemInvReqErr, "more READs and atomics than responder resources")
	}
	return fault{}
}

// execute does what an RC request asks for. Everything but what happens to
// memory in this very moment has been checked.
func (r *responder) execute(p *Packet) fault {
	count := r.ep.env.Counters
	switch p.Info.Kind {
	case roce.KindSend:
		return r.in.executeSend(p)
	case roce.KindWrite:
		if p.Info.Flags&roce.FlagStart != 0 {
			count.RxWriteRequests++
		}
		return r.in.executeWrite(p)
	case roce.KindReadRequest:
		count.RxReadRequests++
		e := r.kept.add(p, r.msn.Next(), packetCount(p.RETH.Length, r.ep.mtu))
		e.qp = r.in.qp
		e.va, e.rkey, e.mtu = p.RETH.VA, p.RETH.RKey, uint16(r.ep.mtu)
		e.length, e.stop = p.RETH.Length, p.RETH.Length
		return fault{}
	default:
		count.RxAtomicRequests++
		return r.executeAtomic(p)
	}
}

// executeAtomic executes an atomic once and keeps its result for duplicates
// (E9, E11).
func (r *responder) executeAtomic(p *Packet) fault {
	a := &p.AtomicETH
	mem, err := r.ep.env.Mem.Remote(r.in.qp.pd, a.RKey, a.VA, atomicSize, ib.AccessRemoteAtomic)
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	var value uint64
	err = r.ep.env.Mem.Touch(func() {
		if p.Info.Kind == roce.KindCompareSwap {
			value = memory.CompareSwap(mem, a.Compare, a.SwapAdd)
		} else {
			value = memory.FetchAdd(mem, a.SwapAdd)
		}
	})
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	r.kept.add(p, r.msn.Next(), 1).value = value
	return fault{}
}

// acknowledge schedules the acknowledgement that a request asks for. READs and
// atomics are answered by their responses, which acknowledge what came before:
// an ACK that is still owed would leave after them, out of PSN order, and say
// nothing new.
func (r *responder) acknowledge(p *Packet) {
	merged := r.reply.kind == replyACK
	if operationOf(p.Info.Kind).answered() {
		if merged {
			r.reply = reply{}
		}
	} else {
		merged = p.BTH.AckReq && r.reply.ack(p.BTH.PSN)
	}
	if merged {
		r.ep.env.Counters.AckDeferred++
	}
}

// reset puts the responder at the start of a connection.
func (r *responder) reset() {
	r.msn, r.nakSent, r.ahead, r.first, r.port, r.row, r.shut = 0, false, ib.PSN{}, false, 0, 0, 0
	r.doubt = doubt{}
	r.resend = resend{}
	r.silence()
}

// forgetEarly lets go what came before its turn, and from where.
func (r *responder) forgetEarly() {
	r.port, r.row = 0, 0
	r.early.clear()
}

// silence drops what the responder still owed.
func (r *responder) silence() {
	r.dying = fault{}
	r.reply = reply{}
	r.kept.clear()
	r.early.clear()
}

// owes reports whether responses are waiting to be sent.
func (r *responder) owes() bool { return r.reply.kind != replyNone || r.kept.pending() }

// replyKind is what kind of ACKNOWLEDGE is owed.
type replyKind uint8

const (
	replyNone replyKind = iota
	replyACK
	replyNAK
)

// reply is the one ACKNOWLEDGE that is owed after the READ and atomic
// responses: acknowledgements are cumulative, so the latest is enough, and a
// NAK acknowledges what is before it.
type reply struct {
	kind     replyKind
	syndrome roce.Syndrome
	psn      ib.PSN
}

// ack schedules an acknowledgement and reports whether it replaces an earlier
// one. It never goes back behind one, and never replaces a NAK.
func (r *reply) ack(p ib.PSN) (merged bool) {
	switch {
	case r.kind == replyNAK:
		return true
	case r.kind == replyACK && p.Diff(r.psn) <= 0:
		return true
	}
	merged = r.kind == replyACK
	*r = reply{kind: replyACK, psn: p}
	return merged
}

// nak schedules a NAK in place of whatever was owed.
func (r *reply) nak(s roce.Syndrome, p ib.PSN) { *r = reply{kind: replyNAK, syndrome: s, psn: p} }

// responseQuantum bounds the READ responses of one turn.
const responseQuantum = 64

// sendResponses appends READ and atomic responses in PSN order and then the
// acknowledgement. It reports whether there are more that could go at once.
func (r *responder) sendResponses(now clock.Instant, b *fabric.Batch) (more bool) {
	for n := 0; ; n++ {
		e := r.kept.front()
		if e == nil {
			break
		}
		if n == responseQuantum {
			return true
		}
		if r.ep.pace.rate != 0 && e.kind == roce.KindReadRequest && !r.ep.mayPace(&r.ep.pace, now) {
			return false
		}
		ok := false
		if e.kind == roce.KindReadRequest {
			ok = r.sendReadResponse(b, e)
		} else {
			ok = r.sendAtomicAck(b, e)
		}
		if !ok {
			return true
		}
	}
	if r.reply.kind != replyNone && !r.sendAck(b) {
		return true
	}
	if r.dying.syndrome != 0 && r.reply.kind == replyNone {
		r.die(now)
	}
	return false
}

// syndrome returns the AETH syndrome of a positive answer. An EE context has no
// receives that it could tell of.
func (r *responder) syndrome() roce.Syndrome {
	if r.end.eec != nil {
		return roce.ACKUnlimited
	}
	n, ok := r.in.from.credits()
	if !ok || !r.ep.env.Settings.Credits {
		return roce.ACKUnlimited
	}
	if r.in.slot.taken {
		n--
	}
	return roce.ACKCredits(ib.CreditCode(n))
}

// header starts a response to a queue pair of the peer's, which names it where
// the connection alone does not.
func (r *responder) header(op roce.Opcode, psn ib.PSN, to ib.QPN) *roce.Packet {
	p := r.ep.header(op|roce.Opcode(serviceOf(r.ep.typ))<<5, psn)
	if r.end.eec != nil {
		p.BTH.DestQP = to
	}
	return p
}

// sendAck appends the ACKNOWLEDGE that is owed.
func (r *responder) sendAck(b *fabric.Batch) bool {
	p := r.header(roce.RCAcknowledge, r.reply.psn, r.peer)
	p.AETH = roce.AETH{Syndrome: r.reply.syndrome, MSN: r.msn}
	if r.reply.kind == replyACK {
		p.AETH.Syndrome = r.syndrome()
	}
	if r.ep.appendBare(b) == nil {
		return false
	}
	r.reply = reply{}
	return true
}

// sendAtomicAck appends the answer to an atomic.
func (r *responder) sendAtomicAck(b *fabric.Batch, e *resource) bool {
	p := r.header(roce.RCAtomicAcknowledge, e.first, e.peer)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	p.AtomicAck = e.value
	if r.ep.appendBare(b) == nil {
		return false
	}
	e.pending = false
	return true
}

// sendReadResponse appends the next response packet of a READ. The key is
// checked again for each: if the region has gone, the peer is told (E14).
func (r *responder) sendReadResponse(b *fabric.Batch, e *resource) bool {
	off := e.next.Distance(e.first) * uint32(e.mtu)
	n := min(e.stop-min(off, e.stop), uint32(e.mtu))
	var src []byte
	if n > 0 {
		var err memory.Fault
		src, err = r.ep.env.Mem.Remote(e.qp.pd, e.rkey, e.va+uint64(off), uint64(n), ib.AccessRemoteRead)
		if err != memory.FaultNone {
			r.endRead(e, err)
			return true
		}
	}
	// A READ that is answered again from the middle goes on with MIDDLE or
	// LAST, as Linux does; one that ends early ends all the same.
	op := readResponse(e.next == e.first, e.next == e.end)
	p := r.header(op, e.next, e.peer)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	seg, payload, id := r.ep.append(b, &r.ep.path, n)
	if seg == nil {
		return false
	}
	if err := r.ep.env.Mem.Touch(func() { copy(payload, src) }); err != memory.FaultNone {
		b.Unappend()
		r.endRead(e, err)
		return true
	}
	r.ep.finish(seg, id)
	r.ep.pace.sent(r.ep.env.Now, ipLength(&r.ep.path, seg))
	e.pending = e.next != e.end
	e.next = e.next.Next()
	return true
}

// endRead ends a READ whose memory is out of reach.
func (r *responder) endRead(e *resource, err memory.Fault) {
	e.pending = false
	switch {
	case !e.replay:
		r.abandonRead(e, err)
	case r.end.eec != nil: // the channel outlives the queue pair's fault
		r.reply.nak(roce.NAKRemoteAccess, e.next)
	default: // a duplicate is never refused
	}
}

// readResponse returns the opcode of a READ response by its place.
func readResponse(start, end bool) roce.Opcode {
	switch {
	case start && end:
		return roce.RCRDMAReadResponseOnly
	case start:
		return roce.RCRDMAReadResponseFirst
	case end:
		return roce.RCRDMAReadResponseLast
	default:
		return roce.RCRDMAReadResponseMiddle
	}
}

// abandonRead refuses a READ in the middle of its responses.
func (r *responder) abandonRead(e *resource, err memory.Fault) {
	r.refuse(e.next, remoteAccess("rkey: "+err.String()))
	r.kept.clear()
}
