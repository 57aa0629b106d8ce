package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
)

// startAckTimer arms the retry timer (E5). A timeout code of 0 is never.
func (q *QP) startAckTimer(now clock.Instant) {
	if d := ib.AckTimeout(q.attr.Timeout); d != 0 {
		q.timers[timerAck] = now.Add(d)
	}
}

// ackTimeout fires the retry timer: what is outstanding is sent again, or has
// been sent often enough (E5, E8).
func (q *QP) ackTimeout(now clock.Instant) {
	if !q.req.outstanding() || q.req.waitRNR {
		return
	}
	if q.req.psn == q.req.una {
		// Nothing was sent since sending went back: it is the window that says
		// no, or this side that is late, not the peer.
		q.startAckTimer(now)
		q.env.Wake(q)
		return
	}
	q.env.Counters.LocalAckTimeoutErr++
	q.retry(now, "timeout")
}

// lostPackets handles the news that packets were lost. Only the first such
// news counts until there is progress; while the peer is not ready, sending
// is about to go back anyway.
func (q *QP) lostPackets(now clock.Instant, cause string) {
	if q.req.retrying || q.req.waitRNR {
		return
	}
	q.retry(now, cause)
}

// retry goes back to the oldest unacknowledged PSN, or fails the oldest work
// request when the count is used up.
func (q *QP) retry(now clock.Instant, cause string) {
	r := &q.req
	if q.sq.Cons() == r.began {
		return
	}
	if r.retries == 0 {
		q.env.Counters.RetryExceededErr++
		q.sendError(now, ib.WCRetryExcErr, "retries exceeded")
		return
	}
	r.retries--
	r.retrying = true
	q.env.Counters.CompleterRetryErr++
	q.lostFlow(true)
	q.rewind()
	q.traceRetry(cause)
	q.startAckTimer(now)
	q.env.Wake(q)
}

// rewind makes the oldest unacknowledged packet the next to be sent (E4).
func (q *QP) rewind() {
	r := &q.req
	r.psn = r.una
	r.next = q.sq.Cons()
	r.rdOut, r.sinceAck = 0, 0
	r.failed = false // the error is met again when its turn comes
	r.read.inMessage = false
	r.read.restart = r.una
	q.seek()
}

// receiveRNR handles an RNR NAK for the oldest packet: wait, then send again
// (E12, E25).
func (q *QP) receiveRNR(now clock.Instant, code uint8) {
	r := &q.req
	q.env.Counters.RcvdRNRErr++
	if r.waitRNR || q.sq.Cons() == r.began {
		return
	}
	if q.attr.RNRRetry != ib.RNRInfiniteRetry {
		if r.rnrLeft == 0 {
			q.env.Counters.RetryRNRExceeded++
			q.sendError(now, ib.WCRNRRetryExcErr, "RNR retries exceeded")
			return
		}
		r.rnrLeft--
	}
	r.waitRNR = true
	q.lostFlow(false)
	q.rewind()
	q.traceRetry("receiver not ready")
	q.timers[timerAck] = clock.Never
	q.timers[timerRNR] = now.Add(ib.RNRTimer(code))
}

// rnrTimeout ends the wait.
func (q *QP) rnrTimeout(now clock.Instant) {
	if !q.req.waitRNR {
		return
	}
	q.req.waitRNR = false
	q.startAckTimer(now)
	q.env.Wake(q)
}
