package qp

import (
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// QP is a queue pair: an endpoint, the two queues, and the parts that work
// on them. It moves between states and tells its parts; they tell it what ends
// in error. Posting may be done by any goroutine; everything else is called by
// the thread that holds the shard.
type QP struct {
	ep   endpoint
	req  requester // what this side asks for
	comp completer // the answers to it
	in   receiver  // what the peer sends
	resp responder // how RC answers it
	srq  *SRQ      // nil: the QP has its own receive queue
	sqd  drainState

	Links Links // the shard's
}

// Links belong to the shard: its lists and its heap run through the QPs, so
// that scheduling one allocates nothing. The QP itself never looks at them.
type Links struct {
	Active       bool          // on the list of QPs with something to transmit
	NextActive   *QP           // next on that list
	Timer        deadline.Link // not later than the QP's deadline
	DoorbellRung atomic.Bool   // on the list of doorbells
	NextDoorbell *QP           // next on that list
}

// Config says what a new QP is made of.
type Config struct {
	Num    ib.QPN
	Type   ib.QPType
	PD     memory.PD
	SendCQ *CQ
	RecvCQ *CQ
	SRQ    *SRQ     // nil for a receive queue of its own
	Cap    ib.QPCap // actual sizes are rounded up
	SigAll bool
}

// New returns a QP in RESET (Q4). The caller has checked the configuration.
// ENOMEM or EINVAL if there is no memory for the queues.
func New(env *Env, c Config) (*QP, error) {
	q := &QP{srq: c.SRQ}
	q.ep = endpoint{env: env, num: c.Num, typ: c.Type, pd: c.PD}
	q.ep.mig.ep = &q.ep
	if c.Type == ib.RC {
		q.ep.mig.req = &q.req
	}
	q.req = requester{ep: &q.ep, qp: q, share: share{qp: q}}
	q.comp = completer{ep: &q.ep, qp: q, req: &q.req}
	q.in = receiver{ep: &q.ep, qp: q, from: &q.in.own, cq: c.RecvCQ}
	q.resp = responder{ep: &q.ep, qp: q, in: &q.in}
	q.req.queue.cq, q.req.queue.sigAll = c.SendCQ, c.SigAll
	if err := q.req.queue.init(env.Queues, c.Type, c.Cap); err != nil {
		return nil, err
	}
	if c.SRQ != nil {
		q.in.from = c.SRQ
		q.in.slot.sges = make([]ib.SGE, 0, c.SRQ.rq.maxSGE)
		c.SRQ.Hold()
	} else if err := q.in.own.init(env.Queues, c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE); err != nil {
		q.req.queue.Free(env.Queues)
		return nil, err
	}
	c.SendCQ.Hold()
	c.RecvCQ.Hold()
	q.ep.timers.stopAll()
	q.req.reset()
	return q, nil
}

// Num returns the QPN.
func (q *QP) Num() ib.QPN { return q.ep.num }

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return q.ep.typ }

// PD returns the protection domain.
func (q *QP) PD() memory.PD { return q.ep.pd }

// State returns the state. Any goroutine may call it.
func (q *QP) State() ib.QPState { return q.ep.State() }

// SendCQ returns where send work requests complete.
func (q *QP) SendCQ() *CQ { return q.req.queue.cq }

// SRQ returns the shared receive queue, nil if the QP has one of its own.
func (q *QP) SRQ() *SRQ { return q.srq }

// Cap returns the actual sizes of the queues (V5).
func (q *QP) Cap() ib.QPCap {
	sq, rq := &q.req.queue, &q.in.own
	c := ib.QPCap{MaxSendWR: sq.Cap(), MaxSendSGE: sq.maxSGE, MaxInlineData: sq.maxInline}
	if q.srq == nil {
		c.MaxRecvWR, c.MaxRecvSGE = rq.Cap(), rq.maxSGE
	}
	return c
}

// Queues returns the beginnings of the send queue and of the receive queue,
// nil for a QP that takes its receives from an SRQ. They stay where they are
// until Destroy.
func (q *QP) Queues() (send, recv *ring.Header) {
	if q.srq == nil {
		recv = q.in.own.Header()
	}
	return q.req.queue.Header(), recv
}

// Receive processes one packet for this QP.
func (q *QP) Receive(now clock.Instant, p *Packet) {
	if d, ok := q.ep.admit(p); !ok {
		q.ep.drop(d, p)
		return
	}
	q.ep.env.Counters.RcvdPkts++
	q.ep.tracePacket(p)
	switch {
	case q.ep.typ == ib.UC:
		q.in.receiveUC(now, p)
	case q.ep.typ != ib.RC:
		q.in.receiveUD(now, p)
	case p.Info.Flags&roce.FlagResponse != 0:
		q.comp.receiveResponse(now, p)
	default:
		q.resp.receiveRequest(now, p)
	}
}

// Transmit appends what the QP has to send and may send, up to a quantum. It
// reports whether there is more that could go at once.
func (q *QP) Transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	if !q.ep.behaviour().sends() {
		return false
	}
	// The last batch may have had no room for responses, or the rate.
	responsesFirst := q.resp.first || q.ep.env.AnswersFirst && q.resp.owes()
	if responsesFirst {
		if q.resp.first = q.resp.sendResponses(now, b); q.resp.first {
			return true
		}
	}
	more = q.req.transmit(now, b)
	if q.resp.owes() {
		q.resp.first = q.resp.sendResponses(now, b)
		more = more || q.resp.first
		if !responsesFirst && !q.ep.pace.allows(now) {
			q.resp.first = q.resp.owes() // requests have had what the rate allows
		}
	}
	q.req.share.yield()
	return more
}

// Advance fires the timers that are due.
func (q *QP) Advance(now clock.Instant) {
	for t := range numTimers {
		if q.ep.timers[t] > now {
			continue
		}
		q.ep.timers[t] = clock.Never
		switch t {
		case timerAck:
			q.req.ackTimeout(now)
		case timerRNR:
			q.req.rnrTimeout(now)
		case timerProbe:
			q.req.share.timeout(now)
		case timerLoss:
			q.req.repair.probe(now)
		case timerLanding:
			q.req.repair.step(now)
		case timerPace:
			q.wake()
		}
	}
}

// Deadline returns when Advance is next needed.
func (q *QP) Deadline() clock.Instant { return q.ep.timers.next() }

// wake puts the QP on the list of those that may have something to transmit.
func (q *QP) wake() { q.ep.env.Wake(q) }

// Doorbell is called after work was posted: it flushes what the state does not
// process (Q15, Q19) or puts the QP on the list of senders.
func (q *QP) Doorbell(now clock.Instant) {
	b := q.ep.behaviour()
	if b.postSend == postFlush {
		q.req.flush(now)
	}
	if b.postRecv == postFlush {
		q.in.flush(now)
	}
	if b.sends() {
		q.wake()
	}
}

// OnFirst sets what is called, once, when the next request that is in sequence
// arrives, before it is executed. It may end the QP: move it
// to ERR or RESET, or destroy it; no other move. Nil calls nothing.
func (q *QP) OnFirst(f func(now clock.Instant)) { q.in.onFirst = f }

// Destroy takes the QP out of use, whatever its state (V13). Its work
// requests vanish, and so do its completions that nobody polled. The memory of
// its queues goes back to the allocator: nobody may post any more.
func (q *QP) Destroy() {
	sq, rq := &q.req.queue, &q.in.own
	sq.mu.Lock()
	rq.mu.Lock()
	q.clear()
	q.ep.state.Store(uint32(ib.RESET))
	rq.mu.Unlock()
	sq.mu.Unlock()
	sq.cq.Release()
	q.in.cq.Release()
	sq.Free(q.ep.env.Queues)
	if q.srq != nil {
		q.srq.Release()
	} else {
		rq.Free(q.ep.env.Queues)
	}
}
