package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// readProgress is how far the responses of the READ that is oldest have come.
type readProgress struct {
	inMessage bool   // a FIRST or MIDDLE came last: MIDDLE or LAST comes next
	restart   ib.PSN // where sending last went back to: the answer may begin anew or go on
}

// receiveResponse matches a response to what was sent. PSNs decide: those
// before una are old, those from fresh on were never sent, the rest answer
// the work requests from the oldest on (E20–E28).
func (q *QP) receiveResponse(now clock.Instant, p *Packet) {
	r := &q.req
	psn := p.BTH.PSN
	switch ahead := psn.Diff(r.una); {
	case ahead < 0:
		q.oldResponse(now, p)
		return
	case psn.Diff(r.fresh) >= 0:
		q.drop(counters.DropGhost, p)
		return
	}
	switch p.Info.Kind {
	case roce.KindAck:
		q.receiveAck(now, p)
	case roce.KindReadResponse:
		q.receiveReadResponse(now, p)
	case roce.KindAtomicAck:
		q.receiveAtomicAck(now, p)
	default:
		q.badResponse(now, "response with a request's opcode")
	}
	q.reapFailed(now)
	q.checkDrained()
	if behaviourOf(q.State()).sends() {
		q.env.Wake(q)
	}
}

// oldResponse handles a response to what is already acknowledged: a duplicate
// (E23). The one just before the oldest may bring new credits. A peer that
// refuses a READ in the middle may name the PSN of the request, as Linux does.
func (q *QP) oldResponse(now clock.Instant, p *Packet) {
	s := p.AETH.Syndrome
	switch {
	case p.Info.Kind != roce.KindAck:
	case s.IsACK() && p.BTH.PSN == q.req.una.Prev():
		q.req.credit.update(p.AETH.MSN, s.Value())
		q.env.Wake(q)
		return
	case s.IsNAK() && s != roce.NAKSequence && q.answersRead(p.BTH.PSN):
		q.receiveNAK(now, p)
		return
	}
	q.drop(counters.DropDuplicate, p)
}

// answersRead reports whether psn is in the part of the oldest work request, a
// READ, that has been answered.
func (q *QP) answersRead(psn ib.PSN) bool {
	if q.sq.Cons() == q.req.began {
		return false
	}
	w := q.sq.At(q.sq.Cons())
	return w.Opcode == ib.WRRDMARead && psn.InWindow(w.FirstPSN, q.req.una.Distance(w.FirstPSN))
}

// receiveAck handles ACKNOWLEDGE: an acknowledgement or a NAK.
func (q *QP) receiveAck(now clock.Instant, p *Packet) {
	s := p.AETH.Syndrome
	switch {
	case s.IsACK():
		q.req.credit.update(p.AETH.MSN, s.Value())
		if !q.acknowledge(now, p.BTH.PSN) {
			q.impliedNAK(now)
		}
	case s.IsRNR(), s.IsNAK():
		// Everything before the PSN of a NAK is acknowledged (E8).
		if p.BTH.PSN != q.req.una && !q.acknowledge(now, p.BTH.PSN.Prev()) {
			q.impliedNAK(now)
			return
		}
		if q.State() == ib.ERR {
			return
		}
		if s.IsRNR() {
			q.receiveRNR(now, s.Value())
			return
		}
		q.receiveNAK(now, p)
	default:
		q.drop(counters.DropResponse, p) // reserved syndrome
	}
}

// receiveNAK handles a NAK for the oldest packet (E8, E10, E14–E16).
func (q *QP) receiveNAK(now clock.Instant, p *Packet) {
	switch p.AETH.Syndrome {
	case roce.NAKSequence:
		q.env.Counters.RcvdSeqErr++
		q.lostPackets(now, "sequence NAK")
	case roce.NAKInvalidRequest:
		q.sendError(now, ib.WCRemInvReqErr, "NAK invalid request")
	case roce.NAKRemoteAccess:
		q.sendError(now, ib.WCRemAccessErr, "NAK remote access error")
	case roce.NAKRemoteOperational:
		q.sendError(now, ib.WCRemOpErr, "NAK remote operational error")
	default:
		q.drop(counters.DropResponse, p) // reserved code
	}
}

// acknowledge completes what is acknowledged by a positive answer to psn:
// everything up to it that needs no data of its own (E22). It reports false
// when it met a READ or atomic whose answer is missing.
func (q *QP) acknowledge(now clock.Instant, psn ib.PSN) bool {
	r := &q.req
	for q.sq.Cons() != r.began {
		w := q.sq.At(q.sq.Cons())
		if psn.Diff(w.FirstPSN) < 0 {
			return true
		}
		if needsResponse(w.Opcode) {
			return false
		}
		if psn.Diff(w.LastPSN) < 0 {
			q.advance(now, psn.Next())
			return true
		}
		q.advance(now, w.LastPSN.Next())
		q.completeSend(now, ib.WCSuccess)
		if q.State() == ib.ERR { // the completion found its CQ full
			return true
		}
	}
	return true
}

// advance moves the oldest unacknowledged PSN on: progress, which reloads the
// retry counters and the timer.
func (q *QP) advance(now clock.Instant, to ib.PSN) {
	r := &q.req
	if to.Diff(r.una) <= 0 {
		return
	}
	if out := r.psn.Diff(r.una); out > 0 {
		q.credited(min(to.Distance(r.una), uint32(out)), uint32(out))
	}
	r.una = to
	if r.psn.Diff(to) < 0 {
		// What was about to be sent again has been answered after all, also
		// if it could not be sent.
		r.psn, r.read.restart = to, to
		r.failed = false
		q.seek()
	}
	r.retrying = false
	r.retries, r.rnrLeft = q.attr.RetryCnt, q.attr.RNRRetry
	if r.waitRNR {
		return
	}
	q.timers[timerAck] = clock.Never
	if r.outstanding() {
		q.startAckTimer(now)
	}
}

// seek sets next to the work request that psn is in.
func (q *QP) seek() {
	r := &q.req
	for r.next != r.began && r.psn.Diff(q.sq.At(r.next).LastPSN) > 0 {
		r.next++
	}
}

// receiveReadResponse places the data of a READ (E26, E28).
func (q *QP) receiveReadResponse(now clock.Instant, p *Packet) {
	w := q.awaiting(now, p)
	if w == nil {
		return
	}
	if w.Opcode != ib.WRRDMARead {
		q.badResponse(now, "READ response to another operation")
		return
	}
	r := &q.req
	psn := p.BTH.PSN
	if psn != r.una { // a response before this one is missing
		q.impliedNAK(now)
		return
	}
	start := p.Info.Flags&roce.FlagStart != 0
	if start == r.read.inMessage && psn != r.read.restart {
		q.badResponse(now, "READ response out of order")
		return
	}
	if p.Info.Headers&roce.HasAETH != 0 && !p.AETH.Syndrome.IsACK() {
		q.badResponse(now, "READ response with a NAK syndrome")
		return
	}
	end := psn == q.chunkEnd(w, psn)
	off := psn.Distance(w.FirstPSN) * uint32(q.mtu)
	if len(p.Payload) != int(min(w.Length-off, uint32(q.mtu))) || end != (p.Info.Flags&roce.FlagEnd != 0) {
		q.sendError(now, ib.WCLocLenErr, "READ response of a wrong length")
		return
	}
	if len(p.Payload) > 0 && q.env.Mem.Scatter(p.Payload, q.pd, q.sq.sges(q.sq.Cons()), uint64(off)) != memory.FaultNone {
		q.sendError(now, ib.WCLocProtErr, "READ data cannot be stored")
		return
	}
	q.advance(now, psn.Next())
	r.read.inMessage = !end
	if end {
		q.answered(now, p, psn == w.LastPSN)
	}
}

// receiveAtomicAck stores the original value of an atomic.
func (q *QP) receiveAtomicAck(now clock.Instant, p *Packet) {
	w := q.awaiting(now, p)
	if w == nil {
		return
	}
	if w.Opcode != ib.WRAtomicCmpAndSwp && w.Opcode != ib.WRAtomicFetchAdd {
		q.badResponse(now, "atomic acknowledge to another operation")
		return
	}
	if !p.AETH.Syndrome.IsACK() {
		q.badResponse(now, "atomic acknowledge with a NAK syndrome")
		return
	}
	var value [8]byte
	putHost64(value[:], p.AtomicAck)
	if q.env.Mem.Scatter(value[:], q.pd, q.sq.sges(q.sq.Cons()), 0) != memory.FaultNone {
		q.sendError(now, ib.WCLocProtErr, "atomic result cannot be stored")
		return
	}
	q.advance(now, p.BTH.PSN.Next())
	q.answered(now, p, true)
}

// answered ends one READ or atomic request; whole says that its work request
// is complete.
func (q *QP) answered(now clock.Instant, p *Packet, whole bool) {
	if q.req.rdOut > 0 {
		q.req.rdOut--
	}
	if p.Info.Headers&roce.HasAETH != 0 {
		q.req.credit.update(p.AETH.MSN, p.AETH.Syndrome.Value())
	}
	if whole {
		q.completeSend(now, ib.WCSuccess)
	}
}

// awaiting acknowledges what comes before the work request that p answers,
// and returns that, which is then the oldest; nil if an earlier READ or
// atomic has no answer yet, which sends it again, or if the QP failed.
func (q *QP) awaiting(now clock.Instant, p *Packet) *sendWQE {
	psn := p.BTH.PSN
	for q.sq.Cons() != q.req.began {
		w := q.sq.At(q.sq.Cons())
		if psn.Diff(w.LastPSN) <= 0 {
			return w
		}
		if !q.acknowledge(now, w.LastPSN) {
			q.impliedNAK(now)
			return nil
		}
	}
	return nil
}

// badResponse fails the oldest work request: the peer answered with what does
// not fit (E24).
func (q *QP) badResponse(now clock.Instant, cause string) {
	q.sendError(now, ib.WCBadRespErr, cause)
}

// impliedNAK goes back to the oldest PSN: a later answer shows that a READ or
// atomic response was lost. It does so once until there is progress.
func (q *QP) impliedNAK(now clock.Instant) {
	if !q.req.retrying && !q.req.waitRNR {
		q.env.Counters.ImpliedNAKSeqErr++
	}
	q.lostPackets(now, "implied NAK")
}

// traceRetry records that sending goes back.
func (q *QP) traceRetry(cause string) {
	if q.env.Trace != nil {
		q.record(trace.Record{Kind: trace.Retry, PSN: q.req.psn, Cause: cause})
	}
}
