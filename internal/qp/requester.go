package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/trace"
)

// sendQuantum is the maximum number of packets per turn of a QP, so that QPs
// share a batch.
const sendQuantum = 64

// requester is the sending side of an end. Work requests between the queue's
// consumer index and began have PSNs; later ones have not started. The next
// packet to send is at flight.Next and belongs to work request next.
type requester struct {
	ep        *endpoint
	end       *End
	comp      *completer
	resp      *responder
	challenge *challenge
	qp        *QP        // owner of the work requests; nil for an EE context without a current one
	queue     *sendQueue // the QP's, or the EE context's own
	flight    flow.Recovery
	retry     flow.Retry

	next    uint32 // index of the work request that contains the packet to send
	resume  uint32 // while packets are repaired: next afterwards
	began   uint32 // index of the first that has not started
	alloc   ib.PSN // first PSN not assigned to a work request
	ssn     uint32 // number of the last message started
	done    uint32 // number of the last message completed
	rdOut   uint32 // READ and atomic requests that wait for an answer
	chunk   chunkSize
	rdBegun uint32 // READ and atomic work requests begun and not complete

	// failed is the local error of work request next, reported once that is the
	// oldest; SUCCESS: none.
	failed ib.WCStatus
	// turn reports whether the requester may start its next work request; nil: it always may.
	turn   func() bool
	read   readProgress
	credit creditState
	delay  delay
	sums   *payloadSums // nil until they are needed
}

// readProgress tracks the responses to the oldest READ.
type readProgress struct {
	inMessage bool   // the last response was FIRST or MIDDLE: MIDDLE or LAST is next
	restart   ib.PSN // PSN to which sending last went back: the response there may restart (FIRST, ONLY) or continue
}

// reset puts the requester at the start of an empty queue.
func (r *requester) reset() {
	at := r.queue.Cons()
	r.next, r.began = at, at
	r.ssn, r.done, r.alloc = 0, 0, ib.PSN{}
	r.credit = creditState{unlimited: true}
	r.delay = delay{}
	r.flight.Reset()
	r.retry.Reset()
	r.idle()
}

// start sets the first PSN (RTR→RTS).
func (r *requester) start(p ib.PSN) {
	r.alloc = p
	r.flight.Start(p)
}

// idle is called when no work request is left and nothing is outstanding. The
// next packet uses a PSN that was never used.
func (r *requester) idle() {
	r.done, r.rdOut, r.rdBegun, r.failed = r.ssn, 0, 0, ib.WCSuccess
	r.read = readProgress{}
	r.flight.Start(r.alloc)
	r.retry.Stop()
}

// checkDrained ends the draining of SQD if work requests have completed.
func (r *requester) checkDrained() { r.qp.settled(r.ep.env.now) }

// drained reports whether every work request that was begun is complete.
func (r *requester) drained() bool { return r.queue.Cons() == r.began }

// transmit sends until the queue, window, batch or quantum is exhausted. It
// reports whether it could send more at once.
func (r *requester) transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	for range sendQuantum {
		w := r.nextRequest(now, b)
		if w == nil {
			return false
		}
		if !r.sendRequest(now, b, w) {
			return true
		}
	}
	return true
}

// nextRequest returns the work request whose packet may be sent now, nil if
// there is none. It starts a new one if state, fence and credits allow.
func (r *requester) nextRequest(now clock.Instant, b *fabric.Batch) *begunWR {
	if r.retry.Waiting() || r.failed != ib.WCSuccess || r.challenge.holds() {
		return nil
	}
	if r.next != r.began {
		w := r.queue.at(r.next)
		if w.kind == begunLocal {
			return w
		}
		if !r.inPace(now) {
			return nil
		}
		if !r.ep.reliable() {
			if r.end.hasRoom(now, b, r.cost(w, r.flight.Next())) {
				return w
			}
		} else if r.flight.Sending() || !r.flight.Holding(now) && r.mayTransmit(now, w, r.flight.Next()) {
			return w
		}
		return nil
	}
	if r.ep.behaviour().requester != sendAll || r.flight.Holding(now) || r.turn != nil && !r.turn() || !r.waiting(now) || !r.inPace(now) {
		return nil
	}
	w := r.queue.note(r.next)
	if r.ep.env.Nasty != nil && w.kind != begunLocal && r.delay.applies(now, r) {
		return nil
	}
	w.first, w.last = r.alloc, r.alloc
	if r.ep.connected() {
		w.last = w.first.Add(w.request().operation().packets(w.length, r.ep.mtu) - 1)
	}
	if w.kind == begunLocal {
		if !w.mayExecute(r.next == r.queue.Cons(), r.rdBegun) {
			return nil
		}
	} else if r.ep.reliable() {
		if !r.mayBegin(w) || !r.mayTransmit(now, w, w.first) {
			return nil
		}
	} else if !r.end.hasRoom(now, b, r.cost(w, w.first)) {
		return nil
	}
	r.begin(w)
	return w
}

// holds reports whether no request may be sent: if the NAK is true, the peer takes none.
func (c *challenge) holds() bool { return c.claims&claimNAK != 0 }

// inPace reports whether the rates of the path, of the queue pair and of the
// datagram's address handle allow a packet now.
func (r *requester) inPace(now clock.Instant) bool {
	ep := r.ep
	if ep.pace.Rate() != 0 && !ep.mayPace(&ep.pace, now) {
		return false
	}
	if !onDatagrams.has(ep.typ) {
		return true
	}
	ah := ep.env.AHs.Get(ib.AHHandle(r.queue.To(r.next).AH))
	return ah == nil || ep.mayPace(&ah.pace, now)
}

// waiting reports whether the queue has a work request that has not started. An
// invalid index (written by a foreign producer) ends the QP.
func (r *requester) waiting(now clock.Instant) bool {
	n, ok := r.queue.Len()
	begun := r.began - r.queue.Cons()
	if !ok || n < begun {
		r.qp.fatal(now, "the send queue's index makes no sense")
		return false
	}
	return n > begun
}

// mayBegin applies the fence and the peer's credits. With nothing outstanding,
// one message may always start, even without credits: only its answer can bring
// new credits.
func (r *requester) mayBegin(w *begunWR) bool {
	if w.flags&ib.SendFence != 0 && r.rdBegun > 0 {
		return false
	}
	return !r.flight.Outstanding() || r.credit.allows(w.request(), r.ssn+1)
}

// mayTransmit applies the window, and the depth of READs and atomics, to the
// request at psn. A request without payload that a retransmission sends alone
// needs no window.
func (r *requester) mayTransmit(now clock.Instant, w *begunWR, psn ib.PSN) bool {
	if w.kind == begunAnswered && r.rdOut >= max(1, uint32(r.ep.attr.MaxRDAtomic)) {
		return false
	}
	return r.flight.Admit(now, r.cost(w, psn))
}

// cost returns the bytes that the request packet of w at psn puts in flight:
// its own, or those of its responses. The window is checked and charged with
// it.
func (r *requester) cost(w *begunWR, psn ib.PSN) uint32 {
	mtu := uint32(r.ep.mtu)
	if w.kind != begunAnswered {
		return flow.PacketCost(min(w.length-psn.Distance(w.first)*mtu, mtu))
	}
	if w.first == w.last {
		return flow.PacketCost(max(w.returned(), w.carried()))
	}
	_, end := r.chunk.at(w, psn)
	tail := min(w.returned()-end.Distance(w.first)*mtu, mtu)
	return end.Distance(psn)*flow.PacketCost(mtu) + flow.PacketCost(tail)
}

// begin starts work request next: it assigns its PSNs and message numbers, and executes a
// local one.
func (r *requester) begin(w *begunWR) {
	r.alloc = w.last.Next()
	r.began++
	r.delay.decided = false
	w.at = r.ep.env.now
	if r.ep.env.InjectRequest != nil {
		w.inject(r)
	}
	n := uint32(1)
	switch w.kind {
	case begunAnswered:
		r.rdBegun++
		n = r.chunk.requests(w)
	case begunLocal:
		n = 0
		executeLocal(r.qp, w, r.queue.At(r.next))
	case begunAcked:
	}
	r.ep.counts().SentMessages += uint64(min(n, 1))
	r.ssn += n
	w.ssn = r.ssn
	r.credit.begin(w.request(), n)
}

// sendRequest appends the packet at psn, or goes on after a local request. It reports
// false when the batch has no room.
func (r *requester) sendRequest(now clock.Instant, b *fabric.Batch, w *begunWR) bool {
	var n uint32
	status := ib.WCSuccess
	if r.ep.typ == ib.XRCIni {
		r.ep.dest.xrc.SRQN = uint32(r.queue.To(r.next).AH)
	}
	switch answered := w.kind == begunAnswered; {
	case w.status != ib.WCSuccess:
		status = w.status
	case w.kind == begunLocal:
		r.next++
		r.comp.reapLocal(now)
		return true
	case answered && r.ep.attr.MaxRDAtomic == 0: // changed after the post, or never set on an EE context
		status = r.ep.opError
	case !w.request().operation().carries:
		n = r.sendBare(b, w)
	case r.ep.connected():
		n, status = r.sendData(b, w)
	default:
		n, status = r.sendDatagram(b, w)
	}
	if status != ib.WCSuccess {
		// The request completes in error once all earlier ones are complete, so
		// that completions stay in order (E2, E3).
		r.failed = status
		r.reapFailed(now)
		return true
	}
	if n == 0 {
		return false
	}
	if w.kind == begunAnswered && !r.flight.Sending() {
		r.rdOut++
	}
	r.sent(now, w, n)
	return true
}

// sent advances by n PSNs after a packet of w was appended.
func (r *requester) sent(now clock.Instant, w *begunWR, n uint32) {
	if r.flight.Next() != r.flight.Fresh() {
		r.ep.env.Counters.RetransPkts++
		r.ep.counts().Retransmitted++
	}
	last := r.flight.Next().Add(n) == w.last.Next()
	if last {
		r.next++
	}
	if r.ep.reliable() {
		r.retry.Sent(now)
		if m := r.flight.Sent(now, n); m != 0 {
			r.goTo(m)
		}
		return
	}
	// UC and UD requests complete when they are handed to the network.
	r.flight.Pass(n)
	if last {
		r.complete(now, ib.WCSuccess)
		r.checkDrained()
	}
}

// flush completes every send work request with a flush error, in order (Q15,
// Q19).
func (r *requester) flush(now clock.Instant) {
	// Requests posted meanwhile ring the doorbell again. If the CQ overflows,
	// the recursive flush completes the rest.
	for n, _ := r.queue.Len(); n > 0; n-- {
		if left, _ := r.queue.Len(); left == 0 {
			break
		}
		r.complete(now, ib.WCWRFlushErr)
	}
	r.idle()
}

// sendData appends the next packet of a SEND or WRITE. It returns 0 when the
// batch is full.
func (r *requester) sendData(b *fabric.Batch, w *begunWR) (uint32, ib.WCStatus) {
	ep, e := r.ep, r.queue.At(r.next)
	psn := r.flight.Next()
	off := psn.Distance(w.first) * uint32(ep.mtu)
	rest := w.length - off
	n := min(rest, uint32(ep.mtu))
	end := rest == n
	req := w.request()
	p := ep.header(req.opcode(ep.service, off == 0, end), psn)
	p.BTH.SE = end && w.flags&ib.SendSolicited != 0 && req.takesReceive()
	cost := flow.PacketCost(n)
	p.BTH.AckReq = ep.reliable() && (end || r.flight.AckDue(cost) || ep.pace.Last(ep.env.now, int(n)))
	req.operation().encode(p, e, 0, w.length)
	seg, payload, id := ep.append(b, &ep.path.Path, n)
	if seg == nil {
		return 0, ib.WCSuccess
	}
	if !r.gather(payload, w, off) {
		b.Unappend()
		return 0, ib.WCLocProtErr
	}
	r.flight.Charge(cost, 1, p.BTH.AckReq)
	ep.finish(seg, id)
	ep.counts().SentBytes += uint64(n)
	ep.pace.Sent(ep.env.now, ipLength(&ep.path, seg))
	return 1, ib.WCSuccess
}

// gather copies payload of the work request next, from byte off of its
// message.
func (r *requester) gather(dst []byte, w *begunWR, off uint32) bool {
	if w.flags&ib.SendInline != 0 {
		copy(dst, r.queue.Inline(r.next, w.length)[off:])
		return true
	}
	if len(dst) == 0 {
		return true
	}
	f := r.ep.env.Mem.Gather(dst, r.qp.via.PD, r.queue.sges(r.next), uint64(off))
	if changed := r.ep.env.Changed; changed != nil && r.ep.reliable() && f == memory.FaultNone {
		if r.sums == nil {
			r.sums = new(payloadSums)
		}
		if r.sums.replace(r.flight.Next(), r.next, dst) {
			changed(r.qp.Num(), r.next)
		}
	}
	return f == memory.FaultNone || denied(r.ep, "payload", f)
}

// sendBare appends a request without payload: a READ of the missing part of w's
// current chunk, an atomic, or a RESYNC. It returns the number of PSNs used, 0 when the
// batch is full.
func (r *requester) sendBare(b *fabric.Batch, w *begunWR) uint32 {
	req := w.request()
	op := req.operation()
	psn := r.flight.Next()
	first, end := r.chunk.at(w, psn)
	n := end.Distance(psn) + 1
	if r.flight.Sending() && op.psns == psnPerResponse {
		n = r.flight.Cut(r.ep.env.now, n, first, w.last)
	}
	p := r.ep.header(req.opcode(r.ep.service, true, true), psn)
	p.BTH.AckReq = true
	done := psn.Distance(w.first) * uint32(r.ep.mtu)
	op.encode(p, r.queue.At(r.next), done, uint32(min(uint64(w.length-done), uint64(n)*uint64(r.ep.mtu))))
	seg := r.ep.appendBare(b)
	if seg == nil {
		return 0
	}
	r.ep.pace.Sent(r.ep.env.now, ipLength(&r.ep.path, seg))
	r.flight.Charge(r.cost(w, psn), n, true)
	return n
}

// traceBack records a retransmission: a Retry, or a Repair, which does not count
// as a retry.
func (r *requester) traceBack(kind trace.Kind, cause string) {
	if r.ep.env.Trace != nil {
		r.ep.record(trace.Record{Kind: kind, PSN: r.flight.Next(), Cause: cause})
	}
}

// creditState limits messages to the receives that the peer has reported (IBA
// 9.7.7.2). Before the first credit count there is no limit.
type creditState struct {
	unlimited bool
	limit     uint32 // number of the last message that has a receive
}

// allows reports whether message number ssn may start. One message beyond the
// credits may: its answer brings the next count.
func (c *creditState) allows(w *request, ssn uint32) bool {
	return c.unlimited || !w.takesReceive() || seqDiff(ssn, c.limit) <= 1
}

// begin counts n new message numbers; messages that need no receive raise the
// limit too.
func (c *creditState) begin(w *request, n uint32) {
	if !c.unlimited && !w.takesReceive() {
		c.limit += n
	}
}

// seqDiff returns the signed distance of two 24-bit sequence numbers.
func seqDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }
