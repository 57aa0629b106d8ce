package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/trace"
)

// startAckTimer arms the retry timer (E5). A timeout code of 0 is never.
func (r *requester) startAckTimer(now clock.Instant) {
	if d := ib.AckTimeout(r.ep.attr.Timeout); d != 0 {
		r.ep.timers[timerAck] = now.Add(d)
	}
}

// ackTimeout fires the retry timer: outstanding packets are sent again, or the
// retry count is exhausted (E5, E8).
func (r *requester) ackTimeout(now clock.Instant) {
	if !r.outstanding() || r.waitRNR {
		return
	}
	if r.end.challenge.holds() {
		r.startAckTimer(now)
		return
	}
	if r.psn == r.una {
		// Nothing was sent since sending went back: the window is full or this
		// side is late, not the peer.
		r.startAckTimer(now)
		r.end.Wake()
		return
	}
	r.ep.env.Counters.LocalAckTimeoutErr++
	if !r.countRetry(now) {
		return
	}
	if r.repair.possible(causeProbe) {
		r.repair.timeout(now)
		r.traceBack(trace.Retry, "timeout")
	} else {
		r.share.LostAll()
		r.goBack(trace.Retry, "timeout")
	}
	r.startAckTimer(now)
}

// lostPackets handles a report that packets were lost: the oldest n, if that is
// known. Only the first report counts until there is progress; during an RNR
// wait, sending goes back anyway.
func (r *requester) lostPackets(now clock.Instant, cause string, n uint32, c repairCause) {
	if r.retrying || r.waitRNR || !r.countRetry(now) {
		return
	}
	r.rtt.Lossy()
	if r.repair.possible(c) {
		r.repair.missing(now, n, c)
		r.traceBack(trace.Retry, cause)
	} else {
		r.share.LostAll()
		r.goBack(trace.Retry, cause)
	}
	r.startAckTimer(now)
}

// repeat sends the oldest request again because its answer is doubtful. It does not count as
// a retry.
func (r *requester) repeat(cause string) {
	switch {
	case r.waitRNR, r.psn == r.una, r.repair.sending(): // it is sent anyway
	case r.repair.possible(causeProbe):
		r.repair.again(r.repair.oldest(), cause)
	default:
		r.goBack(trace.Repair, cause)
	}
}

// countRetry counts a retry, or fails the oldest work request when no retry is
// left.
func (r *requester) countRetry(now clock.Instant) bool {
	if r.drained() {
		return false
	}
	if r.retries == 0 {
		if r.ep.mig.mayMigrate() {
			r.ep.mig.migrate(now)
			return false
		}
		r.ep.env.Counters.RetryExceededErr++
		r.end.fail(now, ib.WCRetryExcErr, "retries exceeded")
		return false
	}
	r.retries--
	r.retrying = true
	r.ep.env.Counters.CompleterRetryErr++
	return true
}

// goBack sends everything again from the oldest packet that is not
// acknowledged.
func (r *requester) goBack(kind trace.Kind, cause string) {
	r.rewind()
	r.traceBack(kind, cause)
	r.end.Wake()
}

// rewind makes the oldest unacknowledged packet the next to be sent, followed
// by all later ones (E4): none of them counts as in flight.
func (r *requester) rewind() {
	r.share.GoBack()
	r.repair.end(r.una)
	r.rdOut, r.sinceAck = 0, 0
	r.rtt.Cancel()
	r.goTo(r.una)
}

// goTo makes the packet at psn, which was sent before, the next to be sent.
func (r *requester) goTo(psn ib.PSN) {
	r.psn = psn
	r.next = r.queue.Cons()
	r.failed = ib.WCSuccess // the error recurs when that request is next
	r.read.inMessage = false
	r.read.restart = psn
	r.seek()
}

// moved restarts sending after a migration: outstanding packets are sent again on
// the new path, with all retries. It drops buffered responses, which describe the
// old path.
func (r *requester) moved(now clock.Instant) {
	r.end.resp.forgetEarly()
	r.end.comp.clear()
	r.rewind()
	r.share.Join(r.ep.env.Peers, r.ep.path.Dst)
	r.repair.peer, r.rtt = r.share.Known(), flow.RoundTrip{}
	r.ep.timers[timerLoss] = clock.Never
	r.retries = r.ep.attr.RetryCnt
	if r.drained() {
		return
	}
	r.traceBack(trace.Retry, "path migration")
	if r.waitRNR {
		return
	}
	r.retrying = true
	r.ep.timers[timerAck] = clock.Never
	r.startAckTimer(now)
	r.end.Wake()
}

// receiveRNR handles an RNR NAK for the oldest packet: wait, then send again
// (E12, E25).
func (r *requester) receiveRNR(now clock.Instant, code uint8) {
	r.ep.env.Counters.RcvdRNRErr++
	if r.waitRNR || r.drained() {
		return
	}
	if r.ep.attr.RNRRetry != ib.RNRInfiniteRetry {
		if r.rnrLeft == 0 {
			r.ep.env.Counters.RetryRNRExceeded++
			r.end.fail(now, ib.WCRNRRetryExcErr, "RNR retries exceeded")
			return
		}
		r.rnrLeft--
	}
	r.waitRNR = true
	if r.repair.possible(causeTold) && r.repair.kind() == flow.Keeps {
		r.repair.refused()
	} else {
		r.rewind()
	}
	r.traceBack(trace.Retry, "receiver not ready")
	r.ep.timers[timerAck], r.ep.timers[timerLoss] = clock.Never, clock.Never
	r.ep.timers[timerRNR] = now.Add(ib.RNRTimer(code))
}

// rnrTimeout ends the RNR wait.
func (r *requester) rnrTimeout(now clock.Instant) {
	if !r.waitRNR {
		return
	}
	r.waitRNR = false
	r.startAckTimer(now)
	r.repair.startProbe(now)
	r.end.Wake()
}

// advance moves una forward. This is progress, so it reloads the retry counters
// and the timer.
func (r *requester) advance(now clock.Instant, to ib.PSN) {
	if to.Diff(r.una) <= 0 {
		return
	}
	from, end := r.repair.landed, r.repair.sentUpTo()
	if n, m := to.Diff(from), end.Diff(from); n > 0 && m > 0 {
		r.share.Credit(now, uint32(min(n, m)), uint32(m), flow.PacketCost(uint32(r.ep.mtu)))
	}
	r.share.Heard(now)
	r.una = to
	r.repair.advanced(to)
	if r.psn.Diff(to) < 0 {
		// The packets about to be retransmitted have been acknowledged.
		r.psn, r.read.restart = to, to
		r.failed = ib.WCSuccess
		r.seek()
	}
	r.repair.sent(now)
	if d, ok := r.rtt.End(to, now); ok {
		r.share.EndRound(d, r.rtt.Least())
	}
	r.retrying = false
	r.retries, r.rnrLeft = r.ep.attr.RetryCnt, r.ep.attr.RNRRetry
	if r.waitRNR {
		return
	}
	r.ep.timers[timerAck], r.ep.timers[timerLoss] = clock.Never, clock.Never
	if r.outstanding() {
		r.startAckTimer(now)
		r.repair.startProbe(now)
	}
}

// seek sets next to the work request that contains psn.
func (r *requester) seek() {
	for r.next != r.began && r.psn.Diff(r.queue.at(r.next).last) > 0 {
		r.next++
	}
}
