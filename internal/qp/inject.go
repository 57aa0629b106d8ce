package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// This file makes a queue pair or a completion queue fail on demand, in the
// same ways in which it fails by itself. Programs, the simulator and scripts
// use it.

// Inject is called for every request that a responder of a reliable service is about to execute,
// on the thread that holds the shard. It returns 0 to let it be executed, or
// the NAK to answer in its place. After a sequence NAK or an RNR NAK the
// request counts as not received; the RNR NAK carries the QP's timer. Any other
// NAK ends the connection as its error does: QP_REQ_ERR or QP_ACCESS_ERR, or an
// error status of the current receive, then ERR. The packet is valid until
// Inject returns.
type Inject func(q *QP, p *Packet) roce.Syndrome

// InjectRequest is called for every work request that a queue pair begins, on the thread that holds the shard.
// It returns the status with which the request is to fail, or SUCCESS; Request.CanFail says which are possible. The
// request completes in its turn, and its queue pair moves as after any error of this kind. No packet of it is sent,
// except for REM_ACCESS_ERR and REM_INV_REQ_ERR: these requests are sent with a wrong key or address, so that the
// peer refuses them, and knows.
type InjectRequest func(q *QP, w Request) ib.WCStatus

// Request is a work request that a queue pair begins.
type Request struct {
	Opcode ib.WROpcode
	Length uint32 // bytes of payload; of a READ, bytes asked for
}

// causeInjected is the cause that traces show for an injected fault.
const causeInjected = "fault on demand"

// injected reports whether an injected NAK answers the request, which then is
// not executed.
func (r *responder) injected(p *Packet) bool {
	switch s := r.ep.env.Inject(r.in.qp, p); {
	case s == 0:
		return false
	case s.IsRNR():
		r.notReady(p, r.in.rnrTimer())
	case s == roce.NAKSequence:
		r.ep.env.Counters.OutOfSeqRequest++
		r.nakSent, r.ahead = true, p.BTH.PSN
		r.reply.nak(s, p.BTH.PSN)
	case s == roce.NAKRemoteAccess:
		r.ep.owner.refuse(p.BTH.PSN, remoteAccess(causeInjected))
	case s == roce.NAKRemoteOperational:
		r.ep.owner.refuse(p.BTH.PSN, remoteOperational(causeInjected))
	case s == roce.NAKInvalidRequest:
		r.ep.owner.refuse(p.BTH.PSN, invalidRequest(ib.WCRemInvReqErr, causeInjected))
	default:
		panic(fmt.Sprintf("qp: a request is to be answered with %v, which refuses nothing", s))
	}
	return true
}

// CanFail reports whether the work request can be made to fail with a status, on queue pairs of a type.
func (w Request) CanFail(on ib.QPType, s ib.WCStatus) bool {
	reliable := onReliable.has(on)
	req := requestOf(w.Opcode)
	if req == nil {
		return false
	}
	op := req.operation()
	switch s {
	case ib.WCLocQPOpErr:
		return true
	case ib.WCMWBindErr:
		return op.local != nil
	case ib.WCLocLenErr, ib.WCLocProtErr:
		return op.carries || op.answer.returns != returnsNothing
	case ib.WCRetryExcErr:
		return op.local == nil && reliable
	case ib.WCRNRRetryExcErr:
		return req.takesReceive() && reliable
	case ib.WCRemAccessErr:
		return reliable && (op.right != 0 && w.Length > 0 || w.Opcode == ib.WRFlush) // the key of an empty request is not looked at
	case ib.WCRemInvReqErr:
		return op.demand.align > 1 && reliable
	}
	return false
}

// The changes that make a peer refuse a request.
const (
	wrongKey    = 0xffffff00 // toggles the index of the key
	unalignment = 1
)

// inject lets a work request that begins fail on demand.
func (w *begunWR) inject(r *requester) {
	if w.status != ib.WCSuccess || w.opcode == wrResync {
		return
	}
	e := r.queue.At(r.next)
	s := r.ep.env.InjectRequest(r.qp, Request{w.opcode, w.length})
	if s == ib.WCSuccess {
		return
	}
	w.fault = memory.FaultInjected
	switch s {
	case ib.WCRemAccessErr:
		e.RKey ^= wrongKey
	case ib.WCRemInvReqErr:
		e.RemoteAddr |= unalignment
	default:
		w.status = s
	}
}

// Force moves the QP as it moves by itself: to ERR with QP_FATAL and both
// queues flushed (Q18, Q19), or, for services that have it, from RTS or SQD to
// SQE with the send queue flushed (Q14, Q15). No work request gets an error
// of its own. EINVAL for a move that the device never makes.
func (q *QP) Force(now clock.Instant, to ib.QPState) error {
	q.ep.env.Enter(now)
	defer q.Arm()
	from := q.State()
	switch {
	case to == ib.ERR && from != ib.RESET && from != ib.ERR:
		q.fatal(now, causeInjected)
	case to == ib.SQE && onSQE.has(q.ep.typ) && (from == ib.RTS || from == ib.SQD):
		q.setState(ib.SQE, causeInjected)
		q.sqd = drainState{}
		q.rd.stopSending(now)
		q.req.failed = ib.WCSuccess
		q.req.flush(now)
	default:
		return fmt.Errorf("force %v QP from %v to %v: the device never makes that move: %w", q.ep.typ, from, to, ib.EINVAL)
	}
	return nil
}
