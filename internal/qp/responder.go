package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/roce"
)

// responder answers the requests of the peer of a reliable service: it executes
// them in order, once, and acknowledges them.
type responder struct {
	ep  *endpoint
	end *End
	in  *receiver

	msn     ib.MSN         // messages completed
	nakSent bool           // a NAK is pending or sent, and the expected packet has not arrived: send no other
	ahead   ib.PSN         // with nakSent: the last packet beyond the gap
	reorder *reorderBuffer // reorder buffer for requests beyond a gap
	port    uint16         // UDP source port of the last executed request; 0: none
	row     uint8          // requests in a row executed from that port, up to demandAfter
	doubt   doubt          // a suspicious request that was requested again
	late    bool           // the current request comes from the reorder buffer
	first   bool           // responses go before requests in the next batch
	resend  resend

	// admit makes further checks of a request at the expected PSN, and reports whether it
	// may be executed; nil: there are none.
	admit func(now clock.Instant, p *Packet) bool

	kept    resources
	reply   reply
	alive   reply // acknowledges a duplicate while the answer to a later request has to wait
	peerRNR peerRNR
	dying   fault // a fatal error whose NAK is still to be sent; nothing more is accepted
}

// fault is an error of the responder: the NAK for the peer and what this side
// reports.
type fault struct {
	syndrome roce.Syndrome // NAK code; 0 is no fault
	status   ib.WCStatus   // of the current receive
	event    ib.EventType  // raised if there is no current receive
	cause    string
	why      string // cause in detail; empty: cause says all, or it is not traced
	// access: the program or its peer is wrong about the memory that the peer may access, which has key, or 0 if there
	// is none. Both are only set if they are traced.
	access bool
	key    uint32
}

// The faults, by their NAK (E10, E14–E17).
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
	expected := r.in.epsn
	if r.request(now, p); r.in.epsn != expected && p.BTH.PSN.Diff(expected) >= 0 {
		r.resend.executed(p, r.in.epsn.Prev(), r.buffers())
		if r.buffers() {
			r.catchUp(now, p.BTH.AckReq)
		}
	}
	if r.owes() {
		r.end.Wake()
	}
}

// catchUp executes buffered requests in order, as if they arrived now, and asks
// for the next missing one. A packet that closes a gap is acknowledged unasked:
// the peer may be waiting for just that. While another gap remains, a NAK follows
// only if the packet before it requested an acknowledgement: otherwise the missing
// packets may be on their way, and the NAK would cause a needless retransmission.
// The end of a message that the peer will send again stays buffered, and no NAK is
// sent for it.
func (r *responder) catchUp(now clock.Instant, asked bool) {
	selected := asked
	for r.dying.syndrome == 0 {
		if k := r.reorder.at(r.in.epsn); k != nil && r.resend.comesAgain(&k.Packet, selected) {
			r.nakSent = true
			return
		}
		k := r.reorder.take(now, r.in.epsn)
		if k == nil {
			break
		}
		asked, k.BTH.AckReq = true, true
		r.late = true
		r.request(now, &k.Packet)
		r.late = false
		r.ep.env.Reorder.put(k)
	}
	if asked && r.reorder.holds() && !r.nakSent && r.dying.syndrome == 0 {
		r.missing()
	}
}

func (r *responder) request(now clock.Instant, p *Packet) {
	switch d := p.BTH.PSN.Diff(r.in.epsn); {
	case d > 0:
		if p.sign != signNone { // a migrated peer starts at the expected PSN or before it
			r.ep.drop(counters.DropMigration, p)
			return
		}
		r.outOfSequence(now, p)
		return
	case d < 0:
		if r.ep.followReplay(now, p, uint32(-d)) {
			r.duplicate(now, p)
		}
		return
	case r.awaits(now, p):
		return
	}
	if r.ep.refusesID(p) {
		r.ep.drop(counters.DropICRC, p)
		return
	}
	if r.row == demandAfter && !r.late && r.doubts(p) {
		return
	}
	if !r.ep.follow(now, p) {
		return
	}
	if r.admit != nil && !r.admit(now, p) {
		return
	}
	if f := r.checkOpcode(p); f.syndrome != 0 {
		r.judge(p, f)
		return
	}
	if !r.in.established(now) {
		r.ep.drop(counters.DropState, p)
		return
	}
	if r.ep.env.Inject != nil && r.injected(p) {
		return
	}
	if !r.in.takeFor(p) {
		r.notReady(p, r.in.rnrTimer())
		return
	}
	if r.ep.env.Nasty != nil && r.peerRNR.refuses(now, r, p) {
		r.notReady(p, nastyRNRTimer(r.in.rnrTimer()))
		return
	}
	if !r.carryOut(p) {
		return
	}
	r.ep.learnID(p)
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

// carryOut checks and executes a request, and reports success. Otherwise the request is refused,
// or dropped as doubtful.
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
		r.in.undo(msg, received)
	}
	return false
}

// awaits buffers p, the end of a message at the expected PSN, if the peer will send it
// again, and reports whether it did. If p is the first packet with its PSN and directly
// follows a late packet, the peer sent it before it went back.
func (r *responder) awaits(now clock.Instant, p *Packet) bool {
	if r.nakSent || p.BTH.PSN == r.resend.at.Next() || !r.resend.comesAgain(p, p.BTH.AckReq) ||
		p.sign != signNone || !r.hold(now, p) {
		return false
	}
	r.nakSent = true
	return true
}

// outOfSequence answers the first packet beyond a gap with a NAK for the
// expected PSN, once (E8).
func (r *responder) outOfSequence(now clock.Instant, p *Packet) {
	kept := r.hold(now, p)
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

// keep buffers a request until the earlier ones arrive, and reports whether it
// did: not a copy of a buffered one, nor a packet from another port than the
// peer's. Execution checks the request later.
func (r *responder) hold(now clock.Instant, p *Packet) bool {
	if r.ep.env.Reorder == nil || r.reorder.has(p.BTH.PSN) || r.ep.suspectsID(p) || r.port != 0 && r.port != p.Data.SrcPort {
		return false
	}
	if r.reorder == nil {
		r.reorder = &reorderBuffer{pool: r.ep.env.Reorder}
	}
	if !r.reorder.store(now, r.in.epsn, p) {
		r.ep.env.Counters.EarlyRefused++
		return false
	}
	r.ep.env.Counters.EarlyKept++
	return true
}

// notReady answers a packet that needs a receive work request when there is
// none (E12), with a timer code. The packets after it are dropped without an answer.
func (r *responder) notReady(p *Packet, code uint8) {
	r.ep.env.Counters.SendRNRErr++
	r.ep.counts().RNRSent++
	s := roce.RNRNAK(code)
	r.ep.owner.notReady(s)
	r.nakSent, r.ahead = true, p.BTH.PSN
	r.peerRNR.note(p)
	r.reply.nak(s, p.BTH.PSN)
}

// gapClosed is called when an expected packet was executed. If the NAK has not
// been sent yet, it is out of date: it becomes a NAK for the next missing
// packet, if later ones were dropped, or else an ACK.
func (r *responder) gapClosed(p *Packet) {
	if !r.nakSent {
		return
	}
	r.nakSent = false
	if r.reply.kind != replyNAK { // it was sent: the peer retransmits from there
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

// from notes the source port of an executed request.
func (r *responder) from(port uint16) {
	if port != r.port {
		r.port, r.row = port, 0
	}
	if r.row < demandAfter {
		r.row++
	}
	r.doubt = doubt{}
	if r.reorder != nil {
		r.reorder.from(port)
	}
}

// doubts reports whether the request p is dropped because a stranger may have sent it: it came
// from a new port or out of the reorder buffer. The responder asks for it again and believes
// the second copy.
func (r *responder) doubts(p *Packet) bool {
	d := doubt{raised: true, psn: p.BTH.PSN, una: p.BTH.PSN}
	other := r.port != 0 && r.port != p.Data.SrcPort
	if !(other && r.doubt != d || r.late) || !r.ep.distrusts(claimNAK) || p.sign != signNone {
		return false
	}
	r.doubt = d
	r.ep.drop(counters.DropDoubt, p)
	r.ahead = p.BTH.PSN
	r.missing()
	return true
}

// judge refuses the request p for a fault. It reports true, and drops p instead, if p may be a
// stranger's.
func (r *responder) judge(p *Packet, f fault) (doubted bool) {
	if r.doubts(p) {
		return true
	}
	r.ep.owner.refuse(p.BTH.PSN, f)
	return false
}

// refuse ends the connection: the NAK follows the pending responses, and then
// the QP fails.
func (q *QP) refuse(psn ib.PSN, f fault) {
	traceRefusal(&q.ep, psn, f)
	q.resp.dying = f
	q.resp.nak(f.syndrome, psn)
}

// notReady has nothing to do: the peer sends the refused request again.
func (q *QP) notReady(roce.Syndrome) {}

// die reports the fault after its NAK was sent, and fails the QP.
func (r *responder) die(now clock.Instant) {
	f := r.dying
	r.dying = fault{}
	if r.in.began() {
		r.in.complete(now, &ib.WC{Status: f.status}, false)
	} else {
		r.ep.raise(f.event)
	}
	r.in.failQP(now, f.cause)
}

// checkOpcode checks that the opcode follows the one before, that the
// operation exists here, and that the QP allows it (E10).
func (r *responder) checkOpcode(p *Packet) fault {
	op := operationOf(p.Info.Kind)
	start := p.Info.Flags&roce.FlagStart != 0
	limit := uint32(r.ep.env.Limits.MaxDestRDAtomic)
	switch {
	case !op.services.has(r.ep.typ):
		return invalidRequest(ib.WCRemInvReqErr, "operation not supported")
	case start != (r.in.msg == messageNone), !start && op.message != r.in.msg:
		return invalidRequest(ib.WCRemInvReqErr, "opcode out of sequence")
	case !r.in.allows(op.right):
		return invalidRequest(ib.WCRemInvReqErr, "QP does not allow "+op.right.String())
	case op.answered() && !r.kept.ready(uint32(r.ep.attr.MaxDestRDAtomic), limit):
		return invalidRequest(ib.WCRemInvReqErr, "more READs and atomics than responder resources")
	}
	return fault{}
}

// execute performs an RC request. All checks are done, except for memory that
// changes in the meantime.
func (r *responder) execute(p *Packet) fault {
	op := operationOf(p.Info.Kind)
	if p.Info.Flags&roce.FlagStart != 0 {
		op.asked(r.ep.env.Counters)
	}
	return op.execute(r, p)
}

// acknowledge schedules the acknowledgement of a request. READs and atomics are
// answered by their responses, which acknowledge what came before: a pending
// ACK would follow them out of PSN order and add nothing.
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
	r.msn, r.nakSent, r.ahead, r.first, r.port, r.row = 0, false, ib.PSN{}, false, 0, 0
	r.doubt = doubt{}
	r.peerRNR = peerRNR{}
	r.resend = resend{}
	r.silence()
}

// forgetEarly empties the reorder buffer and forgets the peer's port.
func (r *responder) dropHeld() {
	r.port, r.row = 0, 0
	r.reorder.clear()
}

// dropEarly empties the reorder buffer.
func (r *responder) dropReordered() { r.reorder.clear() }

// silence drops the responder's pending responses.
func (r *responder) silence() {
	r.dying = fault{}
	r.reply, r.alive = reply{}, reply{}
	r.kept.cancel(r.ep.env)
	r.kept.clear()
	r.reorder.clear()
}

// buffers reports whether requests beyond a gap are buffered.
func (r *responder) buffers() bool { return r.reorder != nil && r.reorder.holds() }

// replyKind is the kind of the pending ACKNOWLEDGE.
type replyKind uint8

const (
	replyNone replyKind = iota
	replyACK
	replyNAK
)

// reply is the one pending ACKNOWLEDGE, sent after READ and atomic responses:
// acknowledgements are cumulative, so the latest is enough, and a NAK
// acknowledges everything before it.
type reply struct {
	kind     replyKind
	syndrome roce.Syndrome
	psn      ib.PSN
}

// ack schedules an acknowledgement and reports whether it replaces an earlier
// one. It never lowers the acknowledged PSN and never replaces a NAK.
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

// nak schedules a NAK in place of any pending reply.
func (r *reply) nak(s roce.Syndrome, p ib.PSN) { *r = reply{kind: replyNAK, syndrome: s, psn: p} }

// nak makes a NAK the answer to the request at psn.
func (r *responder) nak(s roce.Syndrome, psn ib.PSN) { r.reply.nak(s, psn) }

// resend follows a peer that sends packets again, so that a message of several packets
// completes, and is acknowledged, only when the peer has sent its last packet.
//
// After a NAK some requesters send everything again, also the packets that the responder
// keeps. If the responder executed the kept end of a message as soon as the missing packet
// came, its ACK would arrive before the peer sent that end again. Such an ACK is legal, but
// Linux rxe cannot use it: it advances the PSN that it expects an ACK for past the end of the
// message, but does not complete the message, as its last packet is still to be sent. When
// that packet, or the ACK of it, is lost, its timer finds nothing unacknowledged and rxe waits
// forever. An ACK that stopped before the end would not help a program that exits after its
// last completion: nothing would acknowledge the end when it comes again. So the end stays
// kept until it comes again. A requester that sends again only what is missing asks for the
// ACK, and that executes the end too.
type resend struct {
	at        ib.PSN // PSN of the latest packet that the peer is known to have sent
	again     bool   // a NAK was sent, and the peer may still have to retransmit packets that it sent before
	selective bool   // the peer retransmits only missing packets
	long      bool   // the last packet executed ended a message of several packets
}

// endsLong reports whether p ends, but does not start, a message.
func endsLong(p *Packet) bool { return p.Info.Flags&(roce.FlagStart|roce.FlagEnd) == roce.FlagEnd }

// selects reports whether p, sent again, shows that the peer sends only what is missing.
// A requester that goes back seldom asks in the middle of a message: Linux rxe does so when
// more than 64 packets have not asked. Its next packet then shows that it goes back.
func selects(p *Packet) bool { return p.BTH.AckReq && p.Info.Flags&roce.FlagEnd == 0 }

// closed notes that p closed the gap of a sent NAK; last is the last executed PSN.
func (s *resend) closed(p *Packet, last ib.PSN) {
	s.at, s.again = last, true
	s.selective = s.selective || selects(p)
}

// executed notes that p arrived in sequence; last is the last executed PSN. kept:
// packets beyond last are buffered, which a go-back-N peer sends again. After a NAK p
// may be late rather than sent again, unless it follows the packet before.
func (s *resend) executed(p *Packet, last ib.PSN, kept bool) {
	if s.again && p.BTH.PSN != s.at.Next() {
		return
	}
	s.at, s.again = last, s.again && kept
}

// duplicate notes that p, which uses n PSNs, is a duplicate; last is the last executed PSN;
// kept is as for executed. It reports whether p is a packet that the peer retransmits
// selectively after a NAK, and for which it requests an ACK. It considers only the latest
// packet and the next one: any other duplicate may be late or forged.
func (s *resend) duplicate(p *Packet, n uint32, last ib.PSN, kept bool) (asks bool) {
	again, follows := p.BTH.PSN == s.at, p.BTH.PSN == s.at.Next()
	switch {
	case !s.again:
	case (again || follows) && p.BTH.AckReq:
		s.selective = s.selective || selects(p)
		asks = s.selective
	case follows: // only a requester that goes back does not ask
		s.selective = false
	}
	if s.at = p.BTH.PSN.Add(n - 1); s.at.Diff(last) > 0 {
		s.at = last
	}
	s.again = s.again && (s.at != last || kept)
	return asks
}

// comesAgain reports whether p, which is at the expected PSN, is the end of a message that
// the peer will send again. asked reports whether the packet that came now asks for an ACK.
func (s *resend) comesAgain(p *Packet, asked bool) bool {
	return s.again && endsLong(p) && !(asked && s.selective)
}

// limit returns the PSN with which to acknowledge the duplicate p; last is the last executed
// PSN. It stops before the end of a message that the peer is about to send again.
func (s *resend) limit(p *Packet, last ib.PSN) ib.PSN {
	if p.BTH.AckReq || p.BTH.PSN == last || !s.long {
		return last
	}
	return last.Prev()
}
