package sim

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
)

// moves are the state transitions that a program may request, in addition to
// those to RESET and ERR, which are always legal (Q2, Q3).
var moves = map[[2]ib.QPState]bool{
	{ib.RESET, ib.INIT}: true, {ib.INIT, ib.RTR}: true, {ib.RTR, ib.RTS}: true,
	{ib.RTS, ib.SQD}: true, {ib.SQD, ib.RTS}: true, {ib.SQE, ib.RTS}: true,
}

// byModify is the cause of a move that the program requested.
const byModify = "modify"

// queueFull is the cause of a move because of a full completion queue.
const queueFull = "completion queue full"

// moved checks a change of state (Q1–Q3, Q14, Q18).
func (e *end) moved(r *trace.Record) {
	w := e.w
	w.Mark(moveMark(r))
	if r.From != e.state {
		w.Fail("state", "adapter %d qp %v moves from %v, and was in %v", e.node.Index, e.num, r.From, e.state)
	}
	e.state = r.To
	if e.pair != nil {
		e.pair.stirred()
	}
	if r.To == ib.ERR || r.To == ib.RESET {
		e.delays.leaves()
	}
	legal := moves[[2]ib.QPState{r.From, r.To}] || r.To == ib.RESET || r.To == ib.ERR
	if r.Cause != byModify {
		switch r.To {
		case ib.ERR:
			legal = e.mayFail && r.From != ib.RESET
			full := r.Cause == queueFull
			e.fatalDue = e.sendQ.down() || e.recvQ.down() && (full || !e.failed) || e.domain != nil && full // no completion can report it
		case ib.SQE:
			legal = !e.reliable && e.failed && (r.From == ib.RTS || r.From == ib.SQD)
		default:
			legal = false
		}
	}
	if !legal {
		w.Fail("state", "adapter %d qp %v moves from %v to %v by itself or against the rules (%s)", e.node.Index, e.num, r.From, r.To, r.Cause)
	}
	switch r.To {
	case ib.ERR:
		e.lastWQE = e.srq != nil || e.domain != nil
		e.node.watch = append(e.node.watch, e)
	case ib.RTS:
		e.failed = false
	}
}

// event checks that an event is due, and occurs once.
func (e *end) event(t ib.EventType) {
	due := false
	switch t {
	case ib.EventQPFatal:
		due, e.fatalDue = e.fatalDue, false
	case ib.EventQPLastWQEReached:
		due, e.lastWQE = e.lastWQE, false
	case ib.EventSQDrained:
		due, e.drainAsk = e.drainAsk && e.state == ib.SQD, false
	case ib.EventCommEst:
		due, e.commEst = !e.commEst && e.state == ib.RTR, true
	case ib.EventPathMig:
		due = e.paths.changePath()
	case ib.EventPathMigErr:
		due = e.paths.asked
	case ib.EventQPReqErr, ib.EventQPAccessErr:
		due, e.mayFail, e.failing = true, true, true
		e.node.watch = append(e.node.watch, e)
	}
	if !due {
		e.w.Fail("event", "adapter %d qp %v: %v in state %v, and nothing calls for it", e.node.Index, e.num, t, e.state)
	}
}

// checkSettled checks an end after a step with an error: its state has changed,
// everything is flushed, and the events are raised.
func (e *end) checkSettled() {
	if e.qp == nil {
		return
	}
	w := e.w
	if e.state != e.qp.State() {
		w.Fail("state", "adapter %d qp %v is in %v without a traced transition: last seen in %v", e.node.Index, e.num, e.qp.State(), e.state)
	}
	switch {
	case e.state == ib.ERR:
		e.checkFlushed()
	case e.fullCQ && e.state != ib.RESET:
		w.Fail("state", "adapter %d qp %v: a completion found its queue full and the state is %v, want ERR", e.node.Index, e.num, e.state)
	case e.failing && e.state != ib.RESET:
		w.Fail("state", "adapter %d qp %v: a request of the peer or a receive failed and the state is %v, want ERR", e.node.Index, e.num, e.state)
	case e.failed && e.reliable:
		w.Fail("state", "adapter %d qp %v: a send failed and the state is %v", e.node.Index, e.num, e.state)
	case e.failed && e.state != ib.SQE && e.state != ib.RESET:
		w.Fail("state", "adapter %d qp %v: a send failed and the state is %v, want SQE", e.node.Index, e.num, e.state)
	case e.state == ib.SQE:
		e.checkSendFlushed()
	}
}

// checkSendFlushed checks the sends that a stopped queue leaves without a
// completion: they can only be unsignalled ones at the end of the queue that
// succeeded before it stopped.
func (e *end) checkSendFlushed() {
	for _, o := range e.sq {
		if o.signaled || e.failed {
			e.w.Fail("flush", "adapter %d qp %v: %v leaves wr_id %d without completion", e.node.Index, e.num, e.state, o.id)
			return
		}
		e.succeeded(o)
	}
	e.sq = nil
}

// checkFlushed: entering ERR completes everything (Q19).
func (e *end) checkFlushed() {
	w := e.w
	e.checkSendFlushed()
	if len(e.rq) > 0 {
		w.Fail("flush", "adapter %d qp %v: ERR leaves %d receives without completion", e.node.Index, e.num, len(e.rq))
	}
	if e.fatalDue {
		w.Fail("event", "adapter %d qp %v went to ERR because its completion queue overflowed, without QP_FATAL", e.node.Index, e.num)
	}
	if e.lastWQE {
		w.Fail("event", "adapter %d qp %v: ERR with a shared receive queue and no LAST_WQE_REACHED", e.node.Index, e.num)
	}
}

// drained reports whether the end is in SQD with nothing left to finish.
func (e *end) drained() bool { return e.state == ib.SQD && !e.qp.Query().SQDraining }
