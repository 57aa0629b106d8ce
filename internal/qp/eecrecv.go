package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/roce"
)

// invalidRD is the fault of a request whose queue pair cannot receive from this
// EE context.
func invalidRD(cause string) fault { return fault{syndrome: roce.NAKInvalidRD, cause: cause} }

// receiveRequest processes an RD request as an RC request, except for a RESYNC, and for
// requests beyond a refused one, which come again.
func (e *EEC) receiveRequest(now clock.Instant, p *Packet) {
	e.in.src = p.DETH.SrcQP
	switch ahead := p.BTH.PSN.Diff(e.in.epsn); {
	case p.Info.Kind == roce.KindResync && e.resyncs(p, ahead):
		e.receiveResync(now, p)
	case e.shut != 0 && ahead > 0 && p.sign == signNone:
		e.ep.drop(counters.DropSequence, p)
	default:
		e.resp.receiveRequest(now, p)
	}
}

// admit makes the checks that RD requests need in addition to those of RC, at
// the expected PSN. It reports whether the RC checks follow.
func (e *EEC) admit(now clock.Instant, p *Packet) bool {
	e.in.src = p.DETH.SrcQP
	if e.shut != 0 {
		e.resp.nak(e.shut, p.BTH.PSN)
		return false
	}
	if f := e.direct(p); f.syndrome != 0 {
		e.refuse(p.BTH.PSN, f)
		return false
	}
	// A request that will be refused for its opcode does not establish communication.
	if f := e.resp.checkOpcode(p); f.syndrome == 0 && !(e.in.established(now) && e.in.establishedQP(now)) {
		e.ep.drop(counters.DropState, p)
		return false
	}
	return true
}

// establishedQP does what established does, for the queue pair that the request is for.
func (r *receiver) establishedQP(now clock.Instant) bool {
	in := &r.qp.in
	return in.established(now)
}

// direct finds the queue pair that a request is for: the first packet of a
// message names a queue pair that exists, is in the same domain and has this
// Q_Key; the others must name the same one.
func (e *EEC) direct(p *Packet) fault {
	in := &e.in
	q := in.qp
	if start := p.Info.Flags&roce.FlagStart != 0; start != (in.msg == messageNone) {
		return fault{} // the opcode is out of sequence; checkOpcode answers that
	} else if start {
		q = e.ep.env.QPs.Find(uint32(p.BTH.DestQP))
	} else if q != nil && q.ep.num != p.BTH.DestQP {
		return invalidRequest(ib.WCRemInvReqErr, "another queue pair in the middle of a message")
	}
	switch {
	case q == nil || q.rd == nil:
		return invalidRD("no such queue pair of reliable datagrams")
	case !q.ep.behaviour().takesRequests():
		return invalidRD("queue pair in " + q.State().String())
	case q.rd.rdd != e.rdd:
		return invalidRD("queue pair of another domain")
	case q.ep.attr.QKey != p.DETH.QKey:
		return invalidRD("wrong Q_Key")
	}
	in.qp, in.from, in.cq = q, q.rd.receives, q.in.cq
	return fault{}
}

// close stops execution until the peer's RESYNC: the peer takes a NAK as the end
// of the message, and its next packets belong to another one.
func (e *EEC) close(s roce.Syndrome) {
	e.shut = s
	e.resp.dropReordered()
}

// notReady notes that an RNR NAK refuses a message.
func (e *EEC) notReady(s roce.Syndrome) { e.close(s) }

// refuse answers with a NAK, after which the peer abandons the message. The
// current receive completes at once if it is too short or has a protection error;
// otherwise it stays until the RESYNC. A fault of the receive also ends its queue
// pair.
func (e *EEC) refuse(psn ib.PSN, f fault) {
	in, now := &e.in, e.ep.env.now
	traceRefusal(&e.ep, psn, f)
	e.close(f.syndrome)
	e.resp.nak(f.syndrome, psn)
	reported := in.slot.taken && (f.status == ib.WCLocLenErr || f.status == ib.WCLocProtErr)
	if reported {
		in.complete(now, &ib.WC{Status: f.status}, false)
	}
	switch {
	case f.syndrome != roce.NAKRemoteOperational || in.qp == nil:
	case reported:
		in.qp.fail(now, f.cause)
	default:
		in.qp.fatal(now, f.cause)
	}
}

// resyncPSNs is how far ahead of the expected PSN a RESYNC may be: more than any
// window has in flight, all of which may be lost. A stranger who knows only the
// addresses of the channel must guess a PSN in 1 of 512 such ranges.
const resyncPSNs = 1 << 15

// resyncs reports whether a RESYNC is acceptable at ahead PSNs past the expected one.
// If it is not at the expected PSN, it must come from the peer's UDP source port, if
// that is known: another process on the peer's host would soon guess a PSN.
func (e *EEC) resyncs(p *Packet, ahead int32) bool {
	return ahead == 0 || ahead > 0 && ahead < resyncPSNs && (e.resp.port == 0 || e.resp.port == p.Data.SrcPort)
}

// receiveResync processes an acceptable RESYNC.
func (e *EEC) receiveResync(now clock.Instant, p *Packet) {
	if e.ep.refusesID(p) {
		e.ep.drop(counters.DropICRC, p)
		return
	}
	if e.ep.follow(now, p) {
		e.resynced(now, p)
	}
	if e.resp.owes() {
		e.Wake()
	}
}

// resynced executes a RESYNC: it aborts a partly received message and expects
// the next PSN.
func (e *EEC) resynced(now clock.Instant, p *Packet) {
	r := &e.resp
	if !e.in.established(now) {
		return
	}
	e.shut, r.nakSent, r.reply = 0, false, reply{}
	r.alive = reply{}
	r.resend = resend{at: p.BTH.PSN}
	r.kept.clear()
	r.reorder.clear()
	e.in.abort(now, ib.WCRemAbortErr)
	e.in.epsn = p.BTH.PSN.Next()
	r.reply.ack(p.BTH.PSN)
}

// abort ends the message being received. Its receive completes with status.
func (r *receiver) abort(now clock.Instant, status ib.WCStatus) {
	r.msg = messageNone
	if r.slot.taken {
		r.complete(now, &ib.WC{Status: status}, false)
	}
	r.qp = nil
}

// cannotRepeat drops a duplicate whose answer is not kept. If it belongs to a refused
// message, the peer may not have received the NAK.
func (e *EEC) cannotRepeat(p *Packet) {
	if e.shut != 0 {
		e.resp.nak(e.shut, p.BTH.PSN)
		return
	}
	e.ep.drop(counters.DropDuplicate, p)
}

// regionGone refuses to answer a READ again: the channel outlives the fault of the queue pair.
func (e *EEC) regionGone(psn ib.PSN) { e.resp.nak(roce.NAKRemoteAccess, psn) }

// left handles a queue pair that stops receiving. A message being received for
// it is dropped; a READ being answered for it can no longer read its memory. The
// peer gets a NAK.
func (e *EEC) left(now clock.Instant, q *QP, status ib.WCStatus) {
	in, r := &e.in, &e.resp
	if in.qp == q {
		if in.slot.taken && status != ib.WCSuccess {
			in.complete(now, &ib.WC{Status: status}, false)
		}
		in.qp, in.slot.taken = nil, false
	}
	if front := r.kept.front(); front != nil && front.qp == q && !front.replay {
		e.refuse(front.next, invalidRD("queue pair has gone"))
		r.kept.clear()
		e.Wake()
		return
	}
	for i := range r.kept.n {
		if k := r.kept.at(i); k.qp == q {
			k.qp, k.pending = nil, false
		}
	}
}
