package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// startAckTimer arms the retry timer (E5). A timeout code of 0 is never.
func (r *requester) startAckTimer(now clock.Instant) {
	if d := ib.AckTimeout(r.ep.attr.Timeout); d != 0 {
		r.ep.timers[timerAck] = now.Add(d)
	}
}

// ackTimeout fires the retry timer: what is outstanding is sent again, or has
// been sent often enough (E5, E8).
func (r *requester) ackTimeout(now clock.Instant) {
	if !r.outstanding() || r.waitRNR {
		return
	}
	if r.psn == r.una {
		// Nothing was sent since sending went back: it is the window that says
		// no, or this side that is late, not the peer.
		r.startAckTimer(now)
		r.qp.wake()
		return
	}
	r.ep.env.Counters.LocalAckTimeoutErr++
	r.retry(now, "timeout")
}

// lostPackets handles the news that packets were lost. Only the first such
// news counts until there is progress; while the peer is not ready, sending
// is about to go back anyway.
func (r *requester) lostPackets(now clock.Instant, cause string) {
	if r.retrying || r.waitRNR {
		return
	}
	r.retry(now, cause)
}

// retry goes back to the oldest unacknowledged PSN, or fails the oldest work
// request when the count is used up.
func (r *requester) retry(now clock.Instant, cause string) {
	if r.drained() {
		return
	}
	if r.retries == 0 {
		r.ep.env.Counters.RetryExceededErr++
		r.qp.sendError(now, ib.WCRetryExcErr, "retries exceeded")
		return
	}
	r.retries--
	r.retrying = true
	r.ep.env.Counters.CompleterRetryErr++
	r.share.lost(true)
	r.rewind()
	r.traceRetry(cause)
	r.startAckTimer(now)
	r.qp.wake()
}

// rewind makes the oldest unacknowledged packet the next to be sent (E4).
func (r *requester) rewind() {
	r.psn = r.una
	r.next = r.queue.Cons()
	r.rdOut, r.sinceAck = 0, 0
	r.failed = ib.WCSuccess // the error is met again when its turn comes
	r.read.inMessage = false
	r.read.restart = r.una
	r.seek()
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
			r.qp.sendError(now, ib.WCRNRRetryExcErr, "RNR retries exceeded")
			return
		}
		r.rnrLeft--
	}
	r.waitRNR = true
	r.share.lost(false)
	r.rewind()
	r.traceRetry("receiver not ready")
	r.ep.timers[timerAck] = clock.Never
	r.ep.timers[timerRNR] = now.Add(ib.RNRTimer(code))
}

// rnrTimeout ends the wait.
func (r *requester) rnrTimeout(now clock.Instant) {
	if !r.waitRNR {
		return
	}
	r.waitRNR = false
	r.startAckTimer(now)
	r.qp.wake()
}

// advance moves the oldest unacknowledged PSN on: progress, which reloads the
// retry counters and the timer.
func (r *requester) advance(now clock.Instant, to ib.PSN) {
	if to.Diff(r.una) <= 0 {
		return
	}
	if out := r.psn.Diff(r.una); out > 0 {
		r.share.credit(min(to.Distance(r.una), uint32(out)), uint32(out), packetCost(uint32(r.ep.mtu)))
	}
	r.una = to
	if r.psn.Diff(to) < 0 {
		// What was about to be sent again has been answered after all, also
		// if it could not be sent.
		r.psn, r.read.restart = to, to
		r.failed = ib.WCSuccess
		r.seek()
	}
	r.retrying = false
	r.retries, r.rnrLeft = r.ep.attr.RetryCnt, r.ep.attr.RNRRetry
	if r.waitRNR {
		return
	}
	r.ep.timers[timerAck] = clock.Never
	if r.outstanding() {
		r.startAckTimer(now)
	}
}

// seek sets next to the work request that psn is in.
func (r *requester) seek() {
	for r.next != r.began && r.psn.Diff(r.queue.at(r.next).last) > 0 {
		r.next++
	}
}

// oldest returns the oldest work request, which was begun.
func (r *requester) oldest() *begunWR { return r.queue.at(r.queue.Cons()) }
