package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/trace"
)

// setPolicy applies the attributes that say how the requester recovers. A queue pair with timeout
// code 0 waits forever and sends no probes.
func (r *requester) setPolicy() {
	r.retry.SetTimeout(ib.AckTimeout(r.ep.attr.Timeout), r.ep.env.Settings.RetrySpeedup)
	r.flight.SetPolicy(flow.Policy{
		Selective: r.ep.env.Reorder != nil, Probes: r.ep.attr.Timeout != 0,
		ProbeAfter: r.ep.env.Settings.ProbeAfter,
	}, flow.PacketCost(uint32(r.ep.mtu)))
}

// oldest describes the oldest packets in flight: of a READ, the missing responses that are known.
func (r *requester) oldest() flow.Oldest {
	o := flow.Oldest{N: 1, Data: !r.drained() && r.queue.oldest().kind == begunAnswered}
	if o.Data {
		o.N, o.Bound = r.comp.gap(), r.comp.buffers()
	}
	return o
}

// ackTimeout fires the retry timer: outstanding packets are sent again, or the
// retry count is exhausted (E5, E8).
func (r *requester) ackTimeout(now clock.Instant) {
	if !r.flight.Outstanding() || r.retry.Waiting() {
		return
	}
	if r.challenge.holds() {
		r.retry.Start(now)
		return
	}
	if r.flight.Next() == r.flight.Una() {
		// Nothing was sent since sending went back: the window is full or this
		// side is late, not the peer.
		r.retry.Start(now)
		r.end.Wake()
		return
	}
	if r.comp.overdue(now) {
		return
	}
	r.ep.env.Counters.LocalAckTimeoutErr++
	r.ep.counts().Timeouts++
	if !r.countRetry(now) {
		return
	}
	r.retry.Expired()
	r.follow(r.flight.Timeout(now, r.oldest()), trace.Retry, "timeout")
	r.retry.Start(now)
}

// lostPackets handles a report that packets were lost: the oldest n, or those and possibly more. Only
// the first report counts until there is progress; during an RNR wait, sending goes back anyway.
func (r *requester) lostPackets(now clock.Instant, cause string, n uint32, s flow.Sign) {
	if r.retry.Repeated() || r.retry.Waiting() || !r.countRetry(now) {
		return
	}
	o := r.oldest()
	o.N = n
	r.follow(r.flight.Lost(now, s, o), trace.Retry, cause)
	r.retry.Start(now)
}

// repeat sends the oldest request again because its answer is doubtful. It does not count as
// a retry.
func (r *requester) repeat(now clock.Instant, cause string) {
	if !r.retry.Waiting() { // otherwise it is sent anyway
		r.follow(r.flight.Again(now, r.oldest()), trace.Repair, cause)
	}
}

// probe fires the probe timer.
func (r *requester) probe(now clock.Instant) {
	if !r.flight.Outstanding() || r.retry.Waiting() {
		return
	}
	if r.comp.overdue(now) {
		return
	}
	m, cause := r.flight.Probe(now, r.oldest(), r.challenge.holds())
	if m&flow.Ask != 0 {
		r.ep.env.Counters.Probes++
	}
	r.follow(m, trace.Repair, cause)
}

// countRetry counts a retry, or fails the oldest work request when no retry is
// left.
func (r *requester) countRetry(now clock.Instant) bool {
	switch {
	case r.drained():
		return false
	case r.retry.Count():
		r.ep.env.Counters.CompleterRetryErr++
		return true
	case r.comp.find(now):
	case r.ep.mayMigrate():
		r.ep.migrate(now)
	default:
		r.ep.env.Counters.RetryExceededErr++
		r.end.fail(now, ib.WCRetryExcErr, "retries exceeded")
	}
	return false
}

// follow sends again what a move says, and traces it: a Retry, or a Repair, which does not count as a
// retry.
func (r *requester) follow(m flow.Move, kind trace.Kind, cause string) {
	if m == 0 {
		return
	}
	r.goTo(m)
	r.traceBack(kind, cause)
	if m&flow.Back != 0 {
		r.end.Wake()
	}
}

// goTo makes the packet at flight.Next, to which a move leads, the next to be sent.
func (r *requester) goTo(m flow.Move) {
	if m&(flow.Repeat|flow.Anew) == flow.Repeat {
		r.resume = r.next
	}
	if m&flow.Back != 0 {
		r.rdOut = 0
	}
	if m&(flow.Repeat|flow.Back) != 0 {
		r.next = r.queue.Cons()
		r.read.inMessage = false
		r.seek()
	}
	if m&flow.Jump != 0 {
		if r.next = r.resume; int32(r.next-r.queue.Cons()) < 0 {
			r.next = r.queue.Cons()
		}
	}
	if m&flow.Skip != 0 {
		r.seek()
	}
}

// seek sets next to the work request that contains the packet to send. An error of another one
// recurs when that is next.
func (r *requester) seek() {
	psn := r.flight.Next()
	r.failed, r.read.restart = ib.WCSuccess, psn
	for r.next != r.began && r.queue.at(r.next).before(psn) {
		r.next++
	}
}

// moved restarts sending after a migration: outstanding packets are sent again on
// the new path, with all retries. It drops buffered responses, which describe the
// old path.
func (r *requester) moved(now clock.Instant) {
	r.resp.dropHeld()
	r.comp.find(now)
	r.comp.clear()
	r.setPolicy()
	r.goTo(r.flight.Rejoin(r.ep.env.Peers, r.ep.path.Dst))
	r.retry.Reload()
	if r.drained() {
		return
	}
	r.traceBack(trace.Retry, "path migration")
	if r.retry.Restart(now) {
		r.end.Wake()
	}
}

// receiveRNR handles an RNR NAK for the oldest packet: wait, then send again
// (E12, E25).
func (r *requester) receiveRNR(now clock.Instant, code uint8) {
	r.ep.env.Counters.RcvdRNRErr++
	r.ep.counts().RNRRcvd++
	if r.retry.Waiting() || r.drained() {
		return
	}
	if !r.retry.Refused(now, ib.RNRTimer(code)) {
		r.ep.env.Counters.RetryRNRExceeded++
		r.end.fail(now, ib.WCRNRRetryExcErr, "RNR retries exceeded")
		return
	}
	r.goTo(r.flight.Refused(now, r.oldest()))
	r.traceBack(trace.Retry, "receiver not ready")
	r.flight.Rest()
}

// rnrTimeout ends the RNR wait.
func (r *requester) rnrTimeout(now clock.Instant) {
	if r.retry.Ready(now) {
		r.flight.StartProbe(now)
		r.end.Wake()
	}
}
