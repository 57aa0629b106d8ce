package qp

import (
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// QP is a queue pair: one end of a connection or of datagrams, and the two
// queues that it works on. It moves between states and informs its parts; they
// report errors to it. Any goroutine may post; only the thread that holds the
// shard calls everything else.
type QP struct {
	End
	pd  memory.PD
	sq  sendQueue
	rq  recvQueue // without memory if there is an SRQ
	srq *SRQ      // nil: the QP has its own receive queue
	rd  *rdSide   // nil unless the service is RD; its methods then do nothing

	sender sender // the queue pair's end; for RD, the EE contexts

	Doorbells Doorbells // the shard's
}

// sender sends the posted work requests of a queue pair.
type sender interface {
	// sendPosted schedules work requests for sending. The state of the queue pair allows it.
	sendPosted(now clock.Instant)
}

// Doorbells belong to the shard: they link its list of queue pairs whose doorbell
// rang.
type Doorbells struct {
	Rung atomic.Bool // on the list
	Next *QP         // next on it
}

// Config configures a new QP.
type Config struct {
	Num    ib.QPN
	Type   ib.QPType
	PD     memory.PD
	SendCQ *CQ
	RecvCQ *CQ
	SRQ    *SRQ     // nil for a receive queue of its own
	RDD    *RDD     // RD only
	Cap    ib.QPCap // actual sizes are rounded up
	SigAll bool
}

// New returns a QP in RESET (Q4). The caller has checked the configuration.
// ENOMEM or EINVAL if there is no memory for the queues.
func New(env *Env, c Config) (*QP, error) {
	q := &QP{srq: c.SRQ}
	q.init(env, c.Num, c.Type, q)
	q.pd, q.sender = c.PD, &q.End
	q.req.qp, q.req.queue = q, &q.sq
	q.in.qp, q.in.from, q.in.cq = q, &q.rq, c.RecvCQ
	q.sq.cq, q.sq.sigAll = c.SendCQ, c.SigAll
	if err := q.sq.init(env.Queues, c.Type, c.Cap); err != nil {
		return nil, err
	}
	if c.SRQ != nil {
		q.in.from = c.SRQ
		q.in.hold(c.SRQ.rq.maxSGE)
		c.SRQ.Hold()
	} else if err := q.rq.init(env.Queues, c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE); err != nil {
		q.sq.Free(env.Queues)
		return nil, err
	}
	if c.Type == ib.RD {
		q.rd = newRDSide(q, c.RDD)
		q.sender = q.rd
	}
	c.SendCQ.Hold()
	c.RecvCQ.Hold()
	q.req.reset()
	return q, nil
}

// Num returns the QPN.
func (q *QP) Num() ib.QPN { return q.ep.num }

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return q.ep.typ }

// PD returns the protection domain.
func (q *QP) PD() memory.PD { return q.pd }

// SendCQ returns the CQ of send completions.
func (q *QP) SendCQ() *CQ { return q.sq.cq }

// RecvCQ returns the CQ of receive completions.
func (q *QP) RecvCQ() *CQ { return q.in.cq }

// SRQ returns the shared receive queue, nil if the QP has one of its own.
func (q *QP) SRQ() *SRQ { return q.srq }

// Cap returns the actual sizes of the queues (V5).
func (q *QP) Cap() ib.QPCap {
	sq, rq := &q.sq, &q.rq
	c := ib.QPCap{MaxSendWR: sq.Cap(), MaxSendSGE: sq.maxSGE, MaxInlineData: sq.maxInline}
	if q.srq == nil {
		c.MaxRecvWR, c.MaxRecvSGE = rq.Cap(), rq.maxSGE
	}
	return c
}

// Queues returns the headers of the send queue and of the receive queue, which
// is nil for a QP with an SRQ. They do not move until Destroy.
func (q *QP) Queues() (send, recv *ring.Header) {
	if q.srq == nil {
		recv = q.rq.Header()
	}
	return q.sq.Header(), recv
}

// Receive processes one packet for this QP.
func (q *QP) Receive(now clock.Instant, p *Packet) {
	switch {
	case !q.ep.take(p):
	case q.ep.typ == ib.RC && p.Info.Flags&roce.FlagResponse != 0:
		if q.comp.receiveResponse(now, p) {
			q.checkDrained()
			q.sendOn()
		}
	case q.ep.typ == ib.RC:
		q.resp.receiveRequest(now, p)
	case q.ep.typ == ib.UC:
		q.in.receiveUC(now, p)
	case onDatagrams.has(q.ep.typ):
		q.in.receiveUD(now, p)
	default: // an EE context receives for RD queue pairs
		q.ep.drop(counters.DropService, p)
	}
}

// Doorbell is called after work was posted: it flushes the work if the state
// does not process it (Q15, Q19) or puts the QP on the list of senders.
func (q *QP) Doorbell(now clock.Instant) {
	b := q.ep.behaviour()
	if b.postSend == postFlush {
		q.req.flush(now)
	}
	if b.postRecv == postFlush {
		q.in.flush(now)
	}
	if b.sends() {
		q.sender.sendPosted(now)
	}
}

// Destroy takes the QP out of use, whatever its state (V13). Its work requests
// and its unpolled completions vanish. Its queue memory goes back to the
// allocator, so posting must have ended.
func (q *QP) Destroy() {
	sq, rq := &q.sq, &q.rq
	q.rd.leave(q.ep.env.now, ib.WCSuccess)
	sq.mu.Lock()
	rq.mu.Lock()
	q.clear()
	q.unschedule()
	q.ep.state.Store(uint32(ib.RESET))
	rq.mu.Unlock()
	sq.mu.Unlock()
	sq.cq.Release()
	q.RecvCQ().Release()
	q.rd.destroy()
	sq.Free(q.ep.env.Queues)
	if q.srq != nil {
		q.srq.Release()
	} else {
		rq.Free(q.ep.env.Queues)
	}
}
