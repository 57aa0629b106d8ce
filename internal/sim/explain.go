package sim

import (
	"github.com/softhca/softhca/ib"
)

// explain checks that something was done to the end, the request or the
// network that makes a status right (E2, E3, E8–E17, E25, E28).
func (e *end) explain(o *op, s ib.WCStatus) {
	p := e.peer
	ok := false
	switch s {
	case ib.WCWRFlushErr:
		ok = e.state == ib.ERR || e.state == ib.SQE && e.typ() != ib.RC
	case ib.WCLocProtErr:
		ok = o.bad == badLKey || e.localGone
	case ib.WCLocQPOpErr:
		ok = o.bad == deadAH
	case ib.WCRemAccessErr:
		ok = o.bad == badRKey || o.bad == outOfRange || p.remGone
	case ib.WCRemInvReqErr:
		ok = o.bad == unaligned || o.consumes() && p.shortRecv
	case ib.WCRemOpErr:
		ok = o.consumes() && (p.badRecv || p.localGone)
	case ib.WCRetryExcErr:
		// Every round needs a trouble of its own; that of the first may be older
		// than the last completion. A READ whose answer was lost is not answered
		// again when its region has gone: a duplicate is dropped, not refused (E9).
		lost := e.pair.disturbed - e.wire.disturbed
		ok = e.wire.rounds >= int(e.terms.retryCnt) && (lost >= uint64(e.terms.retryCnt) || p.remGone && e.pair.disturbed > 0 || e.pair.broken || e.wire.deceived || p.wire.deceived || e.paths.at != p.paths.at || p.state < ib.RTR || p.state == ib.ERR)
	case ib.WCRNRRetryExcErr:
		ok = e.terms.rnrRetry != ib.RNRInfiniteRetry && e.wire.rnrs >= int(e.terms.rnrRetry)
	}
	if !ok && (s == ib.WCRemAccessErr || s == ib.WCRemInvReqErr) {
		ok = e.wire.deceived && (e.wire.ended || e.silentPeer())
	}
	if !ok {
		e.w.fail("status", "adapter %d qp %v: wr_id %d (%v, %v) completes with %v in state %v, and nothing that happened explains it (retry rounds %d of %d, waits for the peer %d)",
			e.node.index, e.num, o.id, o.code, o.bad, s, e.state, e.wire.rounds, e.terms.retryCnt, e.wire.rnrs)
	}
}

// explainRecv does so for a receive (E10, E14–E16).
func (e *end) explainRecv(v *receive, s ib.WCStatus) {
	ok := false
	switch s {
	case ib.WCWRFlushErr:
		ok = e.state == ib.ERR
	case ib.WCLocProtErr:
		ok = v.bad || e.localGone
	case ib.WCLocLenErr:
		ok = e.shortRecv
	case ib.WCRemInvReqErr, ib.WCLocAccessErr:
		// The receive in hand of a request that is refused for its own sake: the
		// key of a WRITE with immediate.
		ok = len(e.inbox) > 0 && (e.inbox[0].bad != flawless || e.remGone)
	}
	if s != ib.WCWRFlushErr {
		if e.state != ib.ERR {
			e.node.watch = append(e.node.watch, e)
		}
		e.trouble, e.doomed = true, true
	}
	if !ok {
		e.w.fail("status", "adapter %d qp %v: receive %d completes with %v in state %v, and nothing that happened explains it", e.node.index, e.num, v.id, s, e.state)
	}
}

// String names the flaw.
func (f flaw) String() string {
	return [...]string{
		"flawless", "bad lkey", "bad rkey", "out of range", "unaligned", "address handle gone",
	}[f]
}
