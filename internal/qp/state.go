package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/trace"
)

// drainState is the sub-state of SQD (Q12).
type drainState struct {
	draining bool // begun work requests are not all completed
	notify   bool // SQ_DRAINED was asked for
}

// setState moves the QP and tells who watches (Q25).
func (q *QP) setState(to ib.QPState, cause string) {
	from := q.State()
	q.state.Store(uint32(to))
	if from == to {
		return
	}
	q.env.Counters.StateChanges++
	if q.env.Trace != nil {
		q.record(trace.Record{Kind: trace.State, From: from, To: to, Cause: cause})
	}
}

// fatal moves the QP to ERR by itself (Q18, Q19): QP_FATAL, then both queues
// are flushed. The work request that failed has been completed by the caller.
func (q *QP) fatal(now clock.Instant, cause string) {
	if q.State() == ib.ERR {
		return
	}
	q.setState(ib.ERR, cause)
	q.raise(ib.EventQPFatal)
	q.stop(now)
}

// stop ends all activity of a QP that has just entered ERR and flushes it.
func (q *QP) stop(now clock.Instant) {
	q.timers.stopAll()
	q.sqd = drainState{}
	q.resp.silence()
	q.releaseFlow()
	q.flushSend(now)
	q.flushRecv(now)
	if q.srq != nil {
		q.raise(ib.EventQPLastWQEReached)
	}
}

// sendError ends a send work request with an error: ERR for RC, SQE for the
// services that have it (Q14, Q18).
func (q *QP) sendError(now clock.Instant, status ib.WCStatus, cause string) {
	q.completeSend(now, status)
	if q.State() == ib.ERR { // the completion found its CQ full
		return
	}
	if q.typ == ib.RC {
		q.fatal(now, cause)
		return
	}
	q.setState(ib.SQE, cause)
	q.sqd = drainState{}
	q.req.failed = false
	q.flushSend(now)
}

// checkDrained ends the draining of SQD when every begun work request is
// complete (E6, Q12).
func (q *QP) checkDrained() {
	if !q.sqd.draining || q.sq.Cons() != q.req.began {
		return
	}
	q.sqd.draining = false
	if q.sqd.notify {
		q.raise(ib.EventSQDrained)
	}
}

// clear empties the QP as RESET and destruction do (Q4, Q5): no work request,
// no completion, no timer. Both posting locks are held.
func (q *QP) clear() {
	q.timers.stopAll()
	q.sqd = drainState{}
	q.leaveFlow()
	q.sq.Reset()
	if q.srq == nil {
		q.rq.Reset()
	}
	q.sendCQ.remove(q.num)
	if q.recvCQ != q.sendCQ {
		q.recvCQ.remove(q.num)
	}
	q.req.reset(q.sq.Prod())
	q.resp.reset()
	q.commEst, q.onFirst = false, nil
	q.prefixes = prefixCache{}
}
