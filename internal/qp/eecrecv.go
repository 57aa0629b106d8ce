package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/roce"
)

// invalidRD is the fault of a request that is for no queue pair of the channel.
func invalidRD(cause string) fault { return fault{syndrome: roce.NAKInvalidRD, cause: cause} }

// admit handles what the requests of an EE context have beside those of RC, at
// the expected PSN, and reports whether the rest is as there.
func (e *EEC) admit(now clock.Instant, p *Packet) bool {
	r := &e.resp
	switch {
	case p.Info.Kind == roce.KindResync:
		e.resynced(now, p)
		return false
	case r.shut != 0:
		r.reply.nak(r.shut, p.BTH.PSN)
		return false
	}
	if f := e.direct(p); f.syndrome != 0 {
		e.refuse(p.BTH.PSN, f)
		return false
	}
	return true
}

// direct finds the queue pair that a request is for: its first packet names one
// that is there, of the same domain and with this Q_Key, and the others name the
// same.
func (e *EEC) direct(p *Packet) fault {
	in := &e.in
	q := in.qp
	if start := p.Info.Flags&roce.FlagStart != 0; start != (in.msg == messageNone) {
		return fault{} // the opcode is out of sequence, and that is told
	} else if start {
		q = e.ep.env.QP(p.BTH.DestQP)
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

// close has nothing more executed until the peer begins anew: it takes a NAK for
// the end of the message, and what follows for something else.
func (r *responder) close(s roce.Syndrome) {
	r.shut = s
	r.early.clear()
}

// refuse answers with a NAK after which the peer gives the message up. The receive
// in hand ends at once if it is to blame, or too short, and waits for the RESYNC
// if not; what is wrong with a receive ends its queue pair.
func (e *EEC) refuse(psn ib.PSN, f fault) {
	in, now := &e.in, e.ep.env.Now
	e.resp.close(f.syndrome)
	e.resp.reply.nak(f.syndrome, psn)
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

// resyncPSNs is how far ahead a RESYNC may be: further than what any window has
// in flight, all of which may be lost. Who only knows the addresses of the channel
// must guess one of so many.
const resyncPSNs = 1 << 15

// resyncs reports whether a RESYNC is in sequence, as far as it is ahead. What is not
// at the expected PSN must come from the port of the peer, while that is known: a
// process on the peer's host that has another one would soon have guessed.
func (r *responder) resyncs(p *Packet, ahead int32) bool {
	return ahead == 0 || ahead > 0 && ahead < resyncPSNs && (r.port == 0 || r.port == p.Data.SrcPort)
}

// resynced executes a RESYNC: a message that is half received is aborted, and
// the PSN after this one is expected next.
func (e *EEC) resynced(now clock.Instant, p *Packet) {
	r := &e.resp
	if !e.in.established(now) {
		return
	}
	r.shut, r.nakSent, r.reply = 0, false, reply{}
	r.resend = resend{}
	r.kept.clear()
	r.early.clear()
	e.in.abort(now, ib.WCRemAbortErr)
	e.in.epsn = p.BTH.PSN.Next()
	r.reply.ack(p.BTH.PSN)
}

// abort ends the message that is coming in. The receive that it is placed in
// completes with a status.
func (r *receiver) abort(now clock.Instant, status ib.WCStatus) {
	r.msg = messageNone
	if r.slot.taken {
		r.complete(now, &ib.WC{Status: status}, false)
	}
	r.qp = nil
}

// left is told that a queue pair takes part no more. A message that is coming in
// for it has no place to go, and a READ that is being answered for it nothing to
// read through; the peer is told.
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
		e.wake()
		return
	}
	for i := range r.kept.n {
		if k := r.kept.at(i); k.qp == q {
			k.qp, k.pending = nil, false
		}
	}
}
