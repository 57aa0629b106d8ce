package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// message is what the responder is in the middle of.
type message uint8

const (
	messageNone message = iota
	messageSend
	messageWrite
)

// responder is the receiving side of a QP.
type responder struct {
	epsn     ib.PSN // next expected
	msn      ib.MSN // messages completed
	msg      message
	dropping bool     // UC: the rest of the message is dropped
	recv     recvSlot // receive of the SEND in progress
	srqSGE   []ib.SGE // room for the elements of a receive from an SRQ
	received uint32   // bytes of the message placed so far
	write    writeTarget
	nakSent  bool   // a NAK is owed or out and the expected packet has not come: stay silent
	ahead    ib.PSN // with nakSent: the last packet that was dropped for being ahead
	first    bool   // responses go before requests in the next batch

	res   resources
	reply reply
	dying *fault // an error whose NAK has not gone out yet; nothing more is accepted
	last  fault  // what dying points to
}

// writeTarget is where the RDMA WRITE in progress goes.
type writeTarget struct {
	va     uint64
	rkey   ib.RKey
	length uint32 // of the whole message
}

// fault is an error of the responder: what the peer is told and what this
// side reports.
type fault struct {
	syndrome roce.Syndrome // NAK code; 0 is no fault
	status   ib.WCStatus   // of the receive work request in hand
	event    ib.EventType  // raised when there is none
	psn      ib.PSN
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
func (q *QP) receiveRequest(now clock.Instant, p *Packet) {
	r := &q.resp
	if r.dying != nil {
		q.drop(counters.DropState, p)
		return
	}
	q.request(now, p)
	if r.owes() {
		q.env.Wake(q)
	}
}

func (q *QP) request(now clock.Instant, p *Packet) {
	r := &q.resp
	switch d := p.BTH.PSN.Diff(r.epsn); {
	case d > 0:
		q.outOfSequence(p)
		return
	case d < 0:
		q.duplicate(p)
		return
	}
	if f := q.checkOpcode(p); f.syndrome != 0 {
		q.refuse(p.BTH.PSN, f)
		return
	}
	if !q.established(now) {
		q.drop(counters.DropState, p)
		return
	}
	if q.env.Intervene != nil && q.intervened(p) {
		return
	}
	if !q.takeResources(p) {
		q.notReady(p)
		return
	}
	f := q.checkLength(p)
	if f.syndrome == 0 {
		f = q.checkKey(p)
	}
	if f.syndrome == 0 {
		f = q.execute(p)
	}
	if f.syndrome != 0 {
		q.refuse(p.BTH.PSN, f)
		return
	}
	r.epsn = r.epsn.Add(q.requestPSNs(p))
	r.gapClosed()
	if p.Info.Flags&roce.FlagEnd != 0 {
		r.msg = messageNone
		r.msn = r.msn.Next()
		q.completeRequest(now, p)
	}
	q.acknowledgeRequest(p)
}

// established raises COMM_EST at the first request in RTR (Q9), and tells who
// waits for a sign of the peer. It reports false if that has ended the QP: the
// request is none of its any more.
func (q *QP) established(now clock.Instant) bool {
	if f := q.onFirst; f != nil {
		q.onFirst = nil
		if f(now); !behaviourOf(q.State()).takesRequests() {
			return false
		}
	}
	if q.State() == ib.RTR && !q.commEst {
		q.commEst = true
		q.raise(ib.EventCommEst)
	}
	return true
}

// OnFirst sets what is called, once, when the next request that is in sequence
// arrives, before it is executed. It may end the QP: move it
// to ERR or RESET, or destroy it; no other move. Nil calls nothing.
func (q *QP) OnFirst(f func(now clock.Instant)) { q.onFirst = f }

// outOfSequence answers the first packet after a gap with the PSN that is
// expected, once (E8).
func (q *QP) outOfSequence(p *Packet) {
	r := &q.resp
	if r.nakSent {
		if p.BTH.PSN.Diff(r.ahead) > 0 {
			r.ahead = p.BTH.PSN
		}
		q.drop(counters.DropSequence, p)
		return
	}
	q.env.Counters.OutOfSeqRequest++
	r.ahead = p.BTH.PSN
	r.nakSent = true
	r.reply.nak(roce.NAKSequence, r.epsn)
}

// notReady answers a packet that needs a receive work request when there is
// none (E12). The rest of the burst is dropped in silence.
func (q *QP) notReady(p *Packet) {
	q.env.Counters.SendRNRErr++
	q.resp.nakSent, q.resp.ahead = true, p.BTH.PSN
	q.resp.reply.nak(roce.RNRNAK(q.attr.MinRNRTimer), p.BTH.PSN)
}

// gapClosed is called when an expected packet was executed. A NAK that has
// not left yet asks for what has come; what it is to ask for is what was
// dropped since and is still missing. Without that it is void, and what it
// would have acknowledged is acknowledged.
func (r *responder) gapClosed() {
	if !r.nakSent {
		return
	}
	r.nakSent = false
	if r.reply.kind != replyNAK {
		return // it has left: the peer goes back to there
	}
	r.reply = reply{}
	if r.ahead.Diff(r.epsn) >= 0 {
		r.nakSent = true
		r.reply.nak(roce.NAKSequence, r.epsn)
		return
	}
	r.reply.ack(r.epsn.Prev())
}

// refuse ends the connection: the NAK goes out after the responses that are
// still owed, and then the QP fails.
func (q *QP) refuse(psn ib.PSN, f fault) {
	r := &q.resp
	f.psn = psn
	r.last = f
	r.dying = &r.last
	r.reply.nak(f.syndrome, f.psn)
}

// die reports the fault whose NAK has gone out and fails the QP.
func (q *QP) die(now clock.Instant) {
	f := q.resp.dying
	q.resp.dying = nil
	if q.resp.recv.taken {
		q.completeRecv(now, &ib.WC{Status: f.status}, false)
	} else {
		q.raise(f.event)
	}
	q.fatal(now, f.cause)
}

// checkOpcode checks that the opcode follows the one before, that the
// operation exists here, and that the QP allows it (E10).
func (q *QP) checkOpcode(p *Packet) fault {
	r := &q.resp
	start := p.Info.Flags&roce.FlagStart != 0
	inHand := messageNone
	switch p.Info.Kind {
	case roce.KindSend:
		inHand = messageSend
	case roce.KindWrite:
		inHand = messageWrite
	case roce.KindReadRequest, roce.KindCompareSwap, roce.KindFetchAdd:
	default:
		return invalidRequest(ib.WCRemInvReqErr, "operation not supported")
	}
	if start != (r.msg == messageNone) || !start && inHand != r.msg {
		return invalidRequest(ib.WCRemInvReqErr, "opcode out of sequence")
	}
	need := ib.Access(0)
	switch p.Info.Kind {
	case roce.KindWrite:
		need = ib.AccessRemoteWrite
	case roce.KindReadRequest:
		need = ib.AccessRemoteRead
	case roce.KindCompareSwap, roce.KindFetchAdd:
		need = ib.AccessRemoteAtomic
	}
	if q.attr.AccessFlags&need != need {
		return invalidRequest(ib.WCRemInvReqErr, "QP does not allow "+need.String())
	}
	if need&(ib.AccessRemoteRead|ib.AccessRemoteAtomic) != 0 && !r.res.ready(uint32(q.attr.MaxDestRDAtomic), uint32(q.env.Limits.MaxDestRDAtomic)) {
		return invalidRequest(ib.WCRemInvReqErr, "more READs and atomics than responder resources")
	}
	return fault{}
}

// takeResources takes the receive work request that a packet consumes: the
// first of a SEND, the last of a WRITE with immediate. It reports whether
// there was one.
func (q *QP) takeResources(p *Packet) bool {
	if !p.TakesReceive() || q.resp.recv.taken {
		return true
	}
	return q.takeRecv()
}

// checkLength checks the payload against the path MTU, the place in the
// message and the room there is (E15).
func (q *QP) checkLength(p *Packet) fault {
	r := &q.resp
	n := len(p.Payload)
	start, end := p.Info.Flags&roce.FlagStart != 0, p.Info.Flags&roce.FlagEnd != 0
	switch {
	case !fitsMTU(p, q.mtu):
		return invalidRequest(ib.WCLocLenErr, "packet length does not fit the path MTU")
	case p.Info.Headers&roce.HasRETH != 0 && p.RETH.Length > MaxMessage:
		return invalidRequest(ib.WCRemInvReqErr, "message longer than 2^31 bytes")
	case p.Info.Kind == roce.KindSend:
		if start {
			r.received = 0
		}
		if uint64(r.received)+uint64(n) > uint64(r.recv.wqe.Length) {
			return invalidRequest(ib.WCLocLenErr, "SEND longer than the receive work request")
		}
	case p.Info.Kind == roce.KindWrite:
		if start {
			r.received = 0
			r.write = writeTarget{va: p.RETH.VA, rkey: p.RETH.RKey, length: p.RETH.Length}
		}
		rest := r.write.length - r.received
		if uint32(n) > rest || end != (uint32(n) == rest) {
			return invalidRequest(ib.WCRemInvReqErr, "WRITE length is not what arrived")
		}
	}
	return fault{}
}

// fitsMTU applies the payload rule of the opcode.
func fitsMTU(p *Packet, mtu int) bool {
	n := len(p.Payload)
	switch p.Info.Payload {
	case roce.PayloadMTU:
		return n == mtu && p.BTH.PadCnt == 0
	case roce.PayloadUpToMTU:
		return n <= mtu
	case roce.PayloadLast:
		return n >= 1 && n <= mtu
	case roce.Payload8:
		return n == 8
	default:
		return true
	}
}

// checkKey checks the rkey of the first packet of a WRITE for the whole
// range, of a READ and of an atomic; a length of zero needs none (E13, E14,
// E17).
func (q *QP) checkKey(p *Packet) fault {
	var err memory.Fault
	switch p.Info.Kind {
	case roce.KindWrite:
		if w := &q.resp.write; p.Info.Flags&roce.FlagStart != 0 && w.length > 0 {
			_, err = q.env.Mem.Remote(q.pd, w.rkey, w.va, uint64(w.length), ib.AccessRemoteWrite)
		}
	case roce.KindReadRequest:
		if p.RETH.Length > 0 {
			_, err = q.env.Mem.Remote(q.pd, p.RETH.RKey, p.RETH.VA, uint64(p.RETH.Length), ib.AccessRemoteRead)
		}
	case roce.KindCompareSwap, roce.KindFetchAdd:
		_, err = q.env.Mem.Remote(q.pd, p.AtomicETH.RKey, p.AtomicETH.VA, 8, ib.AccessRemoteAtomic)
		if err == memory.FaultAlign {
			return invalidRequest(ib.WCRemInvReqErr, "atomic at an address that is not a multiple of 8")
		}
	}
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	return fault{}
}

// requestPSNs returns how many PSNs a request takes: a READ as many as its
// responses.
func (q *QP) requestPSNs(p *Packet) uint32 {
	if p.Info.Kind != roce.KindReadRequest {
		return 1
	}
	return packetCount(p.RETH.Length, q.mtu)
}

// acknowledgeRequest schedules the acknowledgement that the packet asks for.
// READs and atomics are answered by their responses, which acknowledge what
// came before: an ACK that is still owed would leave after them, out of PSN
// order, and say nothing new.
func (q *QP) acknowledgeRequest(p *Packet) {
	switch p.Info.Kind {
	case roce.KindSend, roce.KindWrite:
		if p.BTH.AckReq && q.resp.reply.ack(p.BTH.PSN) {
			q.env.Counters.AckDeferred++
		}
	default:
		if q.resp.reply.kind == replyACK {
			q.resp.reply = reply{}
			q.env.Counters.AckDeferred++
		}
	}
}

// reset puts the responder at the start of a connection.
func (r *responder) reset() {
	*r = responder{srqSGE: r.srqSGE, res: resources{ring: r.res.ring[:0]}}
}

// silence drops what the responder still owed.
func (r *responder) silence() {
	r.dying = nil
	r.reply = reply{}
	r.res.clear()
}

// owes reports whether responses are waiting to be sent.
func (r *responder) owes() bool { return r.reply.kind != replyNone || r.res.pending() }
