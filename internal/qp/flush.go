package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/trace"
)

// completeSend ends the oldest send work request: an entry in the CQ if it is
// signalled or failed, and its slot is free again.
func (q *QP) completeSend(now clock.Instant, status ib.WCStatus) {
	w := q.sq.At(q.sq.Cons())
	signalled := q.sigAll || w.Flags&ib.SendSignaled != 0
	wc := ib.WC{WRID: w.WRID, Status: status, QPN: q.num}
	if status == ib.WCSuccess {
		wc.Opcode, wc.ByteLen = wcOpcode(w), w.Length
	}
	if isSend(w.Opcode) && status == ib.WCSuccess {
		q.env.Counters.RDMASends++
	}
	if needsResponse(w.Opcode) && q.req.rdBegun > 0 && q.sq.Cons() != q.req.began {
		q.req.rdBegun--
	}
	if q.sq.Cons() == q.req.began { // never sent: a flush or a local error
		q.req.began++
	}
	if int32(q.req.next-q.sq.Cons()) <= 0 {
		q.req.next = q.sq.Cons() + 1
	}
	q.sq.Release(1)
	if status == ib.WCSuccess && !signalled {
		return
	}
	q.countStatus(status, &q.env.Counters.ReqCQEError)
	q.push(now, q.sendCQ, &wc, false)
}

// countStatus counts an unsuccessful completion.
func (q *QP) countStatus(s ib.WCStatus, failed *uint64) {
	switch s {
	case ib.WCSuccess:
	case ib.WCWRFlushErr:
		q.env.Counters.CQEFlush++
	default:
		*failed++
	}
}

// push adds an entry to a CQ. A CQ that is full fails with CQ_ERR and takes
// its QPs with it (E18, E27), this one first; entries that it could not take
// are counted.
func (q *QP) push(now clock.Instant, cq *CQ, wc *ib.WC, solicited bool) {
	if q.env.Trace != nil {
		q.record(trace.Record{Kind: trace.Completion, WRID: wc.WRID, Status: wc.Status, Len: int(wc.ByteLen)})
	}
	r := cq.push(wc, solicited)
	if r == pushed {
		return
	}
	q.env.Counters.CQEOverflow++
	if r == overflowed {
		q.env.Raise(Event{Type: ib.EventCQErr, CQ: cq})
	}
	q.fatal(now, causeCQFull)
	if r == overflowed {
		q.env.CQFailed(now, cq)
	}
}

const causeCQFull = "completion queue full"

// CQFailed fails the QP if it completes to cq, which overflowed. In RESET it
// has nothing to complete.
func (q *QP) CQFailed(now clock.Instant, cq *CQ) {
	if (q.sendCQ == cq || q.recvCQ == cq) && q.State() != ib.RESET {
		q.fatal(now, causeCQFull)
	}
}

// flushSend completes every send work request with a flush error, in order
// (Q15, Q19).
func (q *QP) flushSend(now clock.Instant) {
	// What is posted meanwhile kicks again. A CQ that overflows on the way
	// flushes the rest from within.
	for n := q.sq.Len(); n > 0 && q.sq.Len() > 0; n-- {
		q.completeSend(now, ib.WCWRFlushErr)
	}
	q.req.idle()
}

// flushRecv completes every receive work request of the QP's own queue with a
// flush error, in order; one taken from an SRQ is completed too.
func (q *QP) flushRecv(now clock.Instant) {
	if q.resp.recv.taken {
		q.completeRecv(now, &ib.WC{Status: ib.WCWRFlushErr}, false)
	}
	if q.srq != nil {
		return
	}
	for n := q.rq.Len(); n > 0 && q.takeRecv(); n-- {
		q.completeRecv(now, &ib.WC{Status: ib.WCWRFlushErr}, false)
	}
}

// recvSlot is the receive work request that a message is being placed in.
type recvSlot struct {
	wqe   ring.RecvWQE
	sges  []ib.SGE
	taken bool
}

// takeRecv takes the next receive work request and reports whether there was
// one.
func (q *QP) takeRecv() bool {
	r := &q.resp.recv
	if q.srq != nil {
		if !q.srq.take(&r.wqe, q.resp.srqSGE) {
			return false
		}
		r.sges = q.resp.srqSGE[:r.wqe.NumSGE]
		r.taken = true
		return true
	}
	if q.rq.Len() == 0 {
		return false
	}
	i := q.rq.Cons()
	r.wqe, r.sges, r.taken = *q.rq.At(i), q.rq.sges(i), true
	return true
}

// completeRecv ends the receive work request in hand. wc carries what the
// service knows; the rest is filled in here.
func (q *QP) completeRecv(now clock.Instant, wc *ib.WC, solicited bool) {
	r := &q.resp.recv
	wc.WRID, wc.QPN = r.wqe.WRID, q.num
	r.taken = false
	if q.srq == nil {
		q.rq.Release(1)
	}
	if wc.Status == ib.WCSuccess {
		q.env.Counters.RDMARecvs++
	}
	q.countStatus(wc.Status, &q.env.Counters.RespCQEError)
	q.push(now, q.recvCQ, wc, solicited)
}
