package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/ring"
)

type sendWQE = ring.SendWQE

// sendQuantum is the packets of one turn of a QP, so that QPs share a batch.
const sendQuantum = 64

// ackRun is how many packets in a row may go without asking for an
// acknowledgement when the window allows more; rxe does the same.
const ackRun = 64

// requester is the sending side of a QP. Work requests between the ring's
// consumer index and began have PSNs; those after have not been touched. The
// next packet is the one at psn, which belongs to the work request next; psn
// is behind fresh while packets are being sent again.
type requester struct {
	next     uint32 // index of the work request that psn is in
	began    uint32 // index of the first that never began
	psn      ib.PSN // next to send
	una      ib.PSN // oldest not acknowledged
	fresh    ib.PSN // first never sent
	alloc    ib.PSN // first not given to a work request
	ssn      uint32 // number of the last message begun
	rdOut    uint32 // READ and atomic requests that wait for an answer
	rdBegun  uint32 // READ and atomic work requests begun and not complete
	sinceAck uint32 // packets sent since one asked for an acknowledgement
	retries  uint8  // left before RETRY_EXC_ERR
	rnrLeft  uint8  // left before RNR_RETRY_EXC_ERR
	waitRNR  bool   // the peer was not ready: nothing is sent until the timer
	retrying bool   // sending went back and nothing has come of it yet
	failed   bool   // the work request next has a local error; it waits to be the oldest
	read     readProgress
	credit   creditState
}

// reset puts the requester at the start of an empty queue.
func (r *requester) reset(at uint32) {
	*r = requester{next: at, began: at}
	r.credit.unlimited = true
}

// start sets the first PSN (RTR→RTS).
func (r *requester) start(p ib.PSN) { r.psn, r.una, r.fresh, r.alloc = p, p, p, p }

// idle is called when every work request is gone: nothing is outstanding.
// Sending goes on, if it does, with a PSN that was never used.
func (r *requester) idle() {
	r.psn, r.una, r.fresh = r.alloc, r.alloc, r.alloc
	r.rdOut, r.rdBegun, r.sinceAck = 0, 0, 0
	r.waitRNR, r.retrying, r.failed = false, false, false
	r.read = readProgress{}
}

// outstanding reports whether packets that were sent are not acknowledged.
func (r *requester) outstanding() bool { return r.fresh != r.una }

// sendRequests sends until the queue, the window, the batch or the quantum is
// used up. It reports whether there is more to send at once.
func (q *QP) sendRequests(now clock.Instant, b *fabric.Batch) (more bool) {
	for range sendQuantum {
		w := q.nextRequest()
		if w == nil {
			return false
		}
		if !q.sendRequest(now, b, w) {
			return true
		}
	}
	return true
}

// nextRequest returns the work request whose packet may be sent now, nil if
// there is none. It begins a new one when the state, the fence and the
// credits allow.
func (q *QP) nextRequest() *sendWQE {
	r := &q.req
	if r.waitRNR || r.failed {
		return nil
	}
	fresh := r.next == r.began
	if fresh && (behaviourOf(q.State()).requester != sendAll || r.began == q.sq.Prod()) {
		return nil
	}
	w := q.sq.At(r.next)
	if fresh && q.typ == ib.RC && !q.mayBegin(w) {
		return nil
	}
	if q.typ == ib.RC && !q.mayTransmit(w, fresh) {
		return nil
	}
	if fresh {
		q.begin(w)
	}
	return w
}

// mayBegin applies the fence and the peer's credits. With nothing outstanding
// one message may always go, whatever count a peer last gave: its answer is
// the only thing that could bring another.
func (q *QP) mayBegin(w *sendWQE) bool {
	if w.Flags&ib.SendFence != 0 && q.req.rdBegun > 0 {
		return false
	}
	return !q.req.outstanding() || q.req.credit.allows(w.Opcode, q.req.ssn+1)
}

// mayTransmit applies the window, and the depth of READs and atomics. A
// request that is sent alone needs no window.
func (q *QP) mayTransmit(w *sendWQE, fresh bool) bool {
	first := q.req.psn
	if fresh {
		first = q.req.alloc
	}
	if needsResponse(w.Opcode) && q.req.rdOut >= max(1, uint32(q.attr.MaxRDAtomic)) {
		return false
	}
	return q.admitFlow(q.packetCost(w, fresh, first))
}

// begin gives a work request its PSNs and its number.
func (q *QP) begin(w *sendWQE) {
	r := &q.req
	w.FirstPSN = r.alloc
	w.LastPSN = r.alloc.Add(q.packets(w) - 1)
	r.alloc = w.LastPSN.Next()
	r.began++
	if needsResponse(w.Opcode) {
		r.rdBegun++
	}
	n := q.chunks(w)
	r.ssn += n
	w.SSN = r.ssn
	r.credit.begin(w.Opcode, n)
}

// packets returns the PSNs that a work request takes.
func (q *QP) packets(w *sendWQE) uint32 {
	switch {
	case w.Opcode == ib.WRAtomicCmpAndSwp || w.Opcode == ib.WRAtomicFetchAdd:
		return 1
	case !q.connected():
		return 1
	}
	return packetCount(w.Length, q.mtu)
}

// packetCount returns the packets that n bytes of payload take: at least one.
func packetCount(n uint32, mtu int) uint32 {
	return max(1, uint32((uint64(n)+uint64(mtu)-1)/uint64(mtu)))
}

// sendRequest appends the packet at psn. It reports false when the batch has
// no room.
func (q *QP) sendRequest(now clock.Instant, b *fabric.Batch, w *sendWQE) bool {
	var n uint32
	status := ib.WCSuccess
	switch {
	case needsResponse(w.Opcode) && q.attr.MaxRDAtomic == 0:
		status = ib.WCLocQPOpErr // posted before the depth was taken away
	case w.Opcode == ib.WRRDMARead:
		n = q.sendRead(b, w)
	case needsResponse(w.Opcode):
		n = q.sendAtomic(b, w)
	case q.connected():
		n, status = q.sendData(b, w)
	default:
		n, status = q.sendDatagram(b, w)
	}
	if status != ib.WCSuccess {
		q.localError(now, w, status)
		return true
	}
	if n == 0 {
		return false
	}
	q.sent(now, w, n)
	return true
}

// sent moves on by n PSNs after a packet of w went out.
func (q *QP) sent(now clock.Instant, w *sendWQE, n uint32) {
	r := &q.req
	if r.psn != r.fresh {
		q.env.Counters.RetransPkts++
	}
	r.psn = r.psn.Add(n)
	if r.psn.Diff(r.fresh) > 0 {
		r.fresh = r.psn
	}
	last := r.psn == w.LastPSN.Next()
	if last {
		r.next++
	}
	if q.typ == ib.RC {
		if q.timers[timerAck] == clock.Never {
			q.startAckTimer(now)
		}
		return
	}
	// UC and UD: handed to the network is complete.
	r.una = r.psn
	if last {
		q.completeSend(now, ib.WCSuccess)
		q.checkDrained()
	}
}

// localError ends sending at w: it completes in error once everything before
// it is complete, so that completions stay in order (E2, E3).
func (q *QP) localError(now clock.Instant, w *sendWQE, s ib.WCStatus) {
	w.Status = s
	q.req.failed = true
	q.reapFailed(now)
}

// reapFailed completes a work request with a local error when it has become
// the oldest.
func (q *QP) reapFailed(now clock.Instant) {
	if !q.req.failed || q.req.next != q.sq.Cons() {
		return
	}
	w := q.sq.At(q.req.next)
	q.sendError(now, w.Status, "local error: "+w.Status.String())
}
