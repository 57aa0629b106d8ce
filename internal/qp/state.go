package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/packet"
	"github.com/softhca/softhca/internal/trace"
)

// drainState is the sub-state of SQD (Q12).
type drainState struct {
	draining bool // begun work requests are not all completed
	notify   bool // SQ_DRAINED was asked for
}

// setState moves the queue pair. In states that flush receives, it asks
// producers that write the queue directly to ring the doorbell.
func (q *QP) setState(to ib.QPState, cause string) {
	q.End.setState(to, cause)
	if q.rq.exists() {
		q.rq.AskDoorbell(behaviourOf(to).postRecv == postFlush)
	}
}

// setState moves the end and traces the change (Q25).
func (e *End) setState(to ib.QPState, cause string) {
	from := e.State()
	e.ep.state.Store(uint32(to))
	e.ep.describe()
	if from == to {
		return
	}
	e.ep.env.Counters.StateChanges++
	if e.ep.env.Trace != nil {
		e.ep.record(trace.Record{Kind: trace.State, From: from, To: to, Cause: cause})
	}
}

// fail moves the QP to ERR by itself and flushes both queues (Q18, Q19). The
// caller has reported the error: by the completion of the failed work request
// or, without one, by QP_REQ_ERR or QP_ACCESS_ERR. QP_FATAL would report it
// twice, and follows only if Settings.FatalEvents is set.
func (q *QP) fail(now clock.Instant, cause string) {
	q.enterError(now, cause, q.ep.env.Settings.FatalEvents)
}

// fatal moves the QP to ERR by itself, because of an error that no completion can
// report. QP_FATAL reports it: it is the architecture's local work queue
// catastrophic error (IBA 11.6.3.1).
func (q *QP) fatal(now clock.Instant, cause string) {
	q.enterError(now, cause, true)
}

func (q *QP) enterError(now clock.Instant, cause string, event bool) {
	if q.State() == ib.ERR {
		return
	}
	q.setState(ib.ERR, cause)
	if event {
		q.ep.raise(ib.EventQPFatal)
	}
	q.stop(now)
}

// stop ends all activity of a QP that has just entered ERR and flushes it.
func (q *QP) stop(now clock.Instant) {
	q.rd.leave(now, ib.WCWRFlushErr)
	q.ep.timers.stopAll()
	q.challenge.stop()
	q.sqd = drainState{}
	q.resp.silence()
	q.comp.clear()
	q.req.flight.Release()
	q.req.flush(now)
	q.in.flush(now)
	q.report()
	if q.srq != nil || q.xrc != nil {
		q.ep.raise(ib.EventQPLastWQEReached)
	}
}

// sendError ends a send work request with an error: ERR for RC, SQE for the
// services that have it (Q14, Q18). No EE context works on it.
func (q *QP) sendError(now clock.Instant, status ib.WCStatus, cause string) {
	q.req.complete(now, status)
	if q.State() == ib.ERR { // the completion found its CQ full
		return
	}
	if !onSQE.has(q.ep.typ) {
		q.fail(now, cause)
		return
	}
	q.setState(ib.SQE, cause)
	q.sqd = drainState{}
	q.req.failed = ib.WCSuccess
	q.req.flush(now)
	q.report()
}

// checkDrained ends the draining when every started work request of the end is
// complete.
func (e *End) checkDrained() {
	if !e.sqd.draining || !e.req.drained() {
		return
	}
	e.sqd.draining = false
	if e.sqd.notify {
		e.ep.raise(ib.EventSQDrained)
	}
}

// clear empties the QP as RESET and destruction do (Q4, Q5): no work request,
// no completion, no timer. Both posting locks are held, and an RD queue pair has left its
// EE contexts: that may raise an event.
func (q *QP) clear() {
	q.sq.Reset()
	if q.rq.exists() {
		q.rq.Reset()
	}
	send, recv := q.SendCQ(), q.RecvCQ()
	if send != nil {
		send.Remove(q.ep.num)
	}
	if recv != nil && recv != send {
		recv.Remove(q.ep.num)
	}
	q.End.clear()
}

// clear resets the end for a new connection.
func (e *End) clear() {
	e.ep.timers.stopAll()
	e.challenge.stop()
	e.sqd = drainState{}
	e.req.flight.Leave(e.ep.env.Peers)
	e.req.reset()
	e.in.reset()
	e.resp.reset()
	e.comp.clear()
	e.comp.msn, e.comp.doubt = msnPolicy{}, doubt{}
	e.ep.prefixes, e.ep.ipid = packet.Prefixes{}, ipidPolicy{}
	e.ep.pace = flow.Pacer{}
	e.ep.stay()
}

// suspend makes the requester wait after an RNR NAK.
func (q *QP) suspend(now clock.Instant, code uint8) { q.req.receiveRNR(now, code) }

// resume ends the wait.
func (q *QP) resume(now clock.Instant) { q.req.rnrTimeout(now) }

// event returns an event of the queue pair.
func (q *QP) event(t ib.EventType) Event { return Event{Type: t, QPN: q.ep.num} }

// cqFailed fails the QP if it completes to cq, which overflowed. In RESET it
// has nothing to complete.
func (q *QP) cqFailed(now clock.Instant, cq *CQ) {
	if (q.SendCQ() == cq || q.in.cq == cq) && q.State() != ib.RESET {
		q.fatal(now, causeCQFull)
	}
}
