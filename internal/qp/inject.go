package qp

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/roce"
)

// What is here makes a queue pair or a completion queue fail on demand, in
// the ways in which it fails by itself. Programs, the simulator and scripts
// use it to see what follows.

// Intervene is asked about every request that an RC responder is about to
// execute, on the thread that holds the shard. It returns 0 to let it be
// executed, or the NAK to answer in its place. A request that is answered
// with a sequence NAK or an RNR NAK counts as not arrived; the timer of an
// RNR NAK is the QP's. Any other NAK ends the connection as the error that
// it names does: QP_REQ_ERR or QP_ACCESS_ERR, or the status of the receive in
// hand, then ERR. The packet is valid until Intervene returns.
type Intervene func(q *QP, p *Packet) roce.Syndrome

// causeInjected is what traces say of a fault that was asked for.
const causeInjected = "fault on demand"

// intervened reports whether the request was answered otherwise than by
// executing it.
func (q *QP) intervened(p *Packet) bool {
	switch s := q.env.Intervene(q, p); {
	case s == 0:
		return false
	case s.IsRNR():
		q.notReady(p)
	case s == roce.NAKSequence:
		q.env.Counters.OutOfSeqRequest++
		q.resp.nakSent, q.resp.ahead = true, p.BTH.PSN
		q.resp.reply.nak(s, p.BTH.PSN)
	case s == roce.NAKRemoteAccess:
		q.refuse(p.BTH.PSN, remoteAccess(causeInjected))
	case s == roce.NAKRemoteOperational:
		q.refuse(p.BTH.PSN, remoteOperational(causeInjected))
	case s == roce.NAKInvalidRequest:
		q.refuse(p.BTH.PSN, invalidRequest(ib.WCRemInvReqErr, causeInjected))
	default:
		panic(fmt.Sprintf("qp: intervention with %v, which refuses nothing", s))
	}
	return true
}

// TakesReceive reports whether an RC request consumes a receive work request:
// the first packet of a SEND, the last of a WRITE with immediate.
func (p *Packet) TakesReceive() bool {
	f := p.Info.Flags
	return p.Info.Kind == roce.KindSend && f&roce.FlagStart != 0 || p.Info.Kind == roce.KindWrite && f&roce.FlagImm != 0
}

// Force moves the QP as it moves by itself: to ERR with QP_FATAL and both
// queues flushed (Q18, Q19), or, for services that have it, from RTS or SQD to
// SQE with the send queue flushed (Q14, Q15). No work request gets an error
// of its own. EINVAL for a move that the device never makes.
func (q *QP) Force(now clock.Instant, to ib.QPState) error {
	q.env.Now = now
	from := q.State()
	switch {
	case to == ib.ERR && from != ib.RESET && from != ib.ERR:
		q.fatal(now, causeInjected)
	case to == ib.SQE && q.typ != ib.RC && (from == ib.RTS || from == ib.SQD):
		q.setState(ib.SQE, causeInjected)
		q.sqd = drainState{}
		q.req.failed = false
		q.flushSend(now)
	default:
		return fmt.Errorf("force %v QP from %v to %v: the device never makes that move: %w", q.typ, from, to, ib.EINVAL)
	}
	return nil
}

// Overflow makes the CQ fail as an entry does that finds it full, and reports
// whether it had not failed before. The adapter raises CQ_ERR and fails the
// QPs (HCA.OverflowCQ).
func (c *CQ) Overflow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failed
	c.failed = true
	return !was
}

// SendCQ returns where send work requests complete.
func (q *QP) SendCQ() *CQ { return q.sendCQ }

// SRQ returns the shared receive queue, nil if the QP has one of its own.
func (q *QP) SRQ() *SRQ { return q.srq }
