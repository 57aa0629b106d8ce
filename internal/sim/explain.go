package sim

import (
	"slices"

	"github.com/softhca/softhca/ib"
)

// explain checks that a status has a cause in the end, the request or the
// network (E2, E3, E8–E17, E25, E28).
func (e *end) explain(o *op, s ib.WCStatus) {
	p := e.peer
	ok := false
	switch s {
	case ib.WCWRFlushErr:
		ok = e.state == ib.ERR || e.state == ib.SQE && !e.reliable
	case ib.WCLocProtErr:
		ok = o.bad == badLKey || e.localGone
	case ib.WCMWBindErr:
		ok = o.bad == badBind || o.window != e.space.remote.binding.mw
	case ib.WCBadRespErr, ib.WCLocLenErr: // an end believes the second of two forged answers with the same PSN
		ok = e.wire.again
	case ib.WCLocQPOpErr:
		ok = o.bad == deadAH
	case ib.WCRemAccessErr:
		ok = o.bad == badRKey || o.bad == outOfRange || o.bad == foreignQueue || o.keyDied(p)
	case ib.WCRemInvReqErr:
		ok = o.bad == unaligned || o.bad == noQueue || o.consumes() && p.shortRecv || o.queue != nil && (o.queue.gone || o.consumes() && o.queue.short)
	case ib.WCRemOpErr:
		ok = o.consumes() && (p.badRecv || p.localGone)
	case ib.WCRetryExcErr:
		// Every round needs its own harm; that of the first may precede the last
		// completion. A READ whose response was lost is not answered again if its
		// region is gone: a duplicate is dropped, not refused (E9).
		lost := e.pair.disturbed - e.wire.disturbed
		ok = e.wire.rounds >= int(e.terms.retryCnt) && (lost >= uint64(e.terms.retryCnt) || p.remGone && e.pair.disturbed > 0 || e.pair.broken || e.wire.deceived || p.wire.deceived || e.paths.at != p.paths.at || p.state < ib.RTR || p.state == ib.ERR)
	case ib.WCRNRRetryExcErr:
		ok = e.terms.rnrRetry != ib.RNRInfiniteRetry && e.wire.rnrs >= int(e.terms.rnrRetry)
	}
	if !ok && (s == ib.WCRemAccessErr || s == ib.WCRemInvReqErr) {
		ok = e.wire.deceived && (e.wire.ended || e.wire.silentPeer())
	}
	if !ok {
		e.w.Fail("status", "adapter %d qp %v: wr_id %d (%v, %v) completes with %v in state %v, and nothing that happened explains it (retry rounds %d of %d, waits for the peer %d)",
			e.node.Index, e.num, o.id, o.code, o.bad, s, e.state, e.wire.rounds, e.terms.retryCnt, e.wire.rnrs)
	}
}

// keyDied reports whether the key that a request to p names may have died.
func (o *op) keyDied(p *end) bool {
	if o.grant != nil {
		return o.grant.dead
	}
	return p.remGone && p.space.remote.binding == nil
}

// awaitsDeadKey reports whether a pending request of the end names a key of type 2 that has died,
// and waits for an answer of its own, for which the peer needs the key.
func (e *end) awaitsDeadKey() bool {
	return slices.ContainsFunc(e.sq, func(o *op) bool { return o.isAnswered() && o.grant != nil && o.grant.dead })
}

// explainRecv is explain for a receive (E10, E14–E16).
func (e *end) explainRecv(v *receive, s ib.WCStatus) {
	ok := false
	switch s {
	case ib.WCWRFlushErr:
		ok = e.state == ib.ERR
	case ib.WCLocProtErr:
		ok = v.bad || e.localGone
	case ib.WCLocLenErr:
		ok = e.shortRecv || v.queue != nil && v.queue.short
	case ib.WCRemInvReqErr, ib.WCLocAccessErr:
		// The current receive of a refused request: a WRITE with immediate with
		// a bad key. Or a READ or a FLUSH before it can no longer be answered; or the peer
		// believes a forged NAK, and goes on with another request.
		ok = e.peer.awaitsDeadKey() || e.peer.wire.deceived || len(e.inbox) > 0 && (e.inbox[0].bad != flawless || e.inbox[0].keyDied(e) || e.inbox[0].queue != nil && e.inbox[0].queue.gone)
	}
	if s != ib.WCWRFlushErr {
		if e.state != ib.ERR {
			e.node.watch = append(e.node.watch, e)
		}
		e.mayFail, e.failing = true, true
	}
	if !ok {
		e.w.Fail("status", "adapter %d qp %v: receive %d completes with %v in state %v, and nothing that happened explains it", e.node.Index, e.num, v.id, s, e.state)
	}
}

// String names the flaw.
func (f flaw) String() string {
	return [...]string{
		"flawless", "bad lkey", "bad rkey", "out of range", "unaligned", "address handle gone",
		"no such shared receive queue", "shared receive queue of another protection domain", "bad bind",
	}[f]
}
