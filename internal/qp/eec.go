package qp

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// RDD is a reliable datagram domain: its queue pairs work only with its own EE
// contexts.
type RDD struct {
	users int
	eecs  []*EEC
}

// Users returns how many queue pairs and EE contexts are in the domain.
func (d *RDD) Users() int { return d.users }

// EEC is an end-to-end context (V18): one end of a reliable datagram channel. It
// is an end like an RC queue pair and follows the same rules, with its own PSNs,
// timers and counts; but it serves many queue pairs, which take turns. One
// message is in flight at a time.
//
// An error of one queue pair's work request ends that request, not the channel:
// the EE context abandons the message, and a RESYNC makes the peer continue at
// the next PSN.
type EEC struct {
	End
	rdd *RDD

	line      line              // queue pairs that wait for their turn
	suspended deadline.Heap[QP] // queue pairs that wait after an RNR NAK
	at        uint32            // index of the current work request, in its queue
	own       sendQueue         // holds the RESYNC request

	// shut is the NAK with which the responder has refused a message: it executes nothing
	// more until the peer's RESYNC.
	shut roce.Syndrome
}

// EECConfig says what a new EE context is made of.
type EECConfig struct {
	Num ib.EECN
	RDD *RDD
}

// NewEEC returns an EE context in RESET.
func NewEEC(env *Env, c EECConfig) (*EEC, error) {
	e := &EEC{rdd: c.RDD, suspended: deadline.New(func(q *QP) *deadline.Link { return &q.rd.timer })}
	e.init(env, ib.QPN(c.Num), ib.EEC, e)
	e.in.eec, e.in.from = c.Num, atOnce{} // the first request brings receives
	e.req.turn, e.resp.admit = e.turn, e.admit
	if err := e.own.init(ring.Allocator{}, ib.EEC, ib.QPCap{MaxSendWR: 1}); err != nil {
		return nil, err
	}
	e.req.queue = &e.own
	e.req.reset()
	e.ep.beginTrack(env.Table, restrack.QPInfo{Num: uint32(c.Num), Type: uint8(ib.EEC)})
	c.RDD.users++
	c.RDD.eecs = append(c.RDD.eecs, e)
	return e, nil
}

// Num returns the number of the EE context.
func (e *EEC) Num() ib.EECN { return ib.EECN(e.ep.num) }

// RDD returns the domain.
func (e *EEC) RDD() *RDD { return e.rdd }

// Receive processes one packet for this EE context.
func (e *EEC) Receive(now clock.Instant, p *Packet) {
	switch {
	case !e.ep.take(p):
	case p.Info.Flags&roce.FlagResponse != 0:
		if e.comp.receiveResponse(now, p) {
			e.settled(now)
			e.sendOn()
		}
	default:
		e.receiveRequest(now, p)
	}
	e.reportReceived()
}

// Modify sets attributes of the EE context and, if the mask has STATE, moves it,
// as QP.Modify does; DestQPN is the number of the EE context at the other end.
// When the EE context stops, unfinished work requests fail at their queue pairs.
func (e *EEC) Modify(now clock.Instant, attr *ib.QPAttr, mask ib.AttrMask) error {
	e.ep.env.Enter(now)
	defer e.Arm()
	defer e.describe()
	m, err := e.plan(attr, mask)
	if err != nil {
		return err
	}
	if m.to == ib.RESET {
		e.stop(now, ib.WCInvEECStateErr, "EE context reset")
		e.clear()
		e.shut = 0
		e.forget()
		e.setState(ib.RESET, "modify")
		return nil
	}
	e.store(attr, mask)
	if mask&ib.AttrDestQPN != 0 {
		e.ep.dest = destination{rdeth: roce.RDETH{EEC: uint32(attr.DestQPN)}}
	}
	e.carryOut(now, &m)
	if m.from == m.to {
		return nil
	}
	if m.to == ib.RTR {
		e.in.commEst = false
	}
	if m.to == ib.ERR {
		if e.findLost(now); e.State() == ib.ERR {
			return nil
		}
	}
	e.setState(m.to, "modify")
	switch m.to {
	case ib.ERR:
		e.stop(now, ib.WCInvEECStateErr, "EE context in ERR")
	case ib.SQD:
		e.drain(&m)
		e.checkDrained()
	case ib.RTS:
		e.sqd = drainState{}
		e.Wake()
	}
	return nil
}

// Destroy takes the EE context out of use, whatever its state. The caller has
// removed it from all tables.
func (e *EEC) Destroy(now clock.Instant) {
	e.ep.env.Enter(now)
	e.stop(now, ib.WCInvEECNErr, "EE context destroyed")
	e.clear()
	e.ep.state.Store(uint32(ib.RESET))
	e.ep.endTrack()
	i := slices.Index(e.rdd.eecs, e)
	e.rdd.eecs = slices.Delete(e.rdd.eecs, i, i+1)
	e.rdd.users--
	e.unschedule()
}

// started reports whether the current work request has started.
func (e *EEC) started() bool { return e.req.began != e.at }

// leaveLine takes a queue pair out of the line.
func (e *EEC) leaveLine(q *QP) { e.line.remove(q) }

// turn reports whether the requester may start its next work request. If there
// is no current one, it takes that of the queue pair that has waited longest.
func (e *EEC) turn() bool {
	r := &e.req
	if r.qp == nil {
		if !r.drained() || e.line.head == nil {
			return false
		}
		e.takeUp(e.line.pop())
	}
	return r.began == e.at
}

// takeUp makes a queue pair's work request the current one.
func (e *EEC) takeUp(q *QP) {
	r, d := &e.req, q.rd
	d.place = placeTurn
	if !d.again {
		d.rnrLeft = e.ep.attr.RNRRetry
	}
	to := &e.ep.dest
	to.qpn, to.deth = d.to.QPN&ib.QPNMask, roce.DETH{QKey: d.to.QKey, SrcQP: q.ep.num}
	if d.to.QKey&ib.QKeyControlled != 0 {
		to.deth.QKey = q.ep.attr.QKey
	}
	r.qp, r.queue, e.at = q, &q.sq, q.sq.Cons()
	r.next, r.began = e.at, e.at
}

// handBack returns the current work request to its queue pair, which it
// returns.
func (e *EEC) handBack() *QP {
	r := &e.req
	q := r.qp
	q.req.next, q.req.began = q.sq.Cons(), q.sq.Cons()
	q.rd.at, q.rd.place, q.rd.again = nil, placeQueue, false
	r.qp, r.queue = nil, &e.own
	r.next, r.began = e.own.Cons(), e.own.Cons()
	return q
}

// settled goes on to the next queue pair when the current work request is
// complete, and ends the draining of SQD.
func (e *EEC) settled(now clock.Instant) {
	if q := e.req.qp; q != nil && q.sq.Cons() != e.at {
		e.handBack()
		q.rd.lineUp(now)
		q.settled(now)
	}
	e.checkDrained()
}

// abandon gives up the current work request. If synchronise is set and packets
// of it were sent, a RESYNC follows.
func (e *EEC) abandon(now clock.Instant, synchronise bool) {
	r := &e.req
	q := r.qp
	half := r.began != e.at && q.sq.Cons() == e.at && r.flight.Fresh().Diff(q.sq.at(e.at).first) > 0
	e.handBack()
	e.idle()
	if half && synchronise {
		e.resync()
	}
	e.checkDrained()
	e.Wake()
}

// idle resets the requester to nothing in flight. The next PSN is the first
// that was never sent.
func (e *EEC) idle() {
	r, t := &e.req, &e.ep.timers
	r.flight.Drop()
	r.alloc = r.flight.Fresh()
	r.idle()
	r.retry.Reload()
	e.comp.clear()
	t[timerAck], t[timerLoss], t[timerEstimate] = clock.Never, clock.Never, clock.Never
}

// resync queues a RESYNC, which is sent like a work request. Nothing else is
// sent until the peer acknowledges it.
func (e *EEC) resync() {
	r, i := &e.req, e.own.Prod()
	*e.own.At(i) = ring.SendWQE{}
	w := e.own.at(i)
	*w = begunWR{opcode: wrResync, first: r.alloc, last: r.alloc}
	e.own.Publish(i + 1)
	r.begin(w)
	e.ep.env.Counters.Resyncs++
}

// sendError ends the current work request with an error: its queue pair goes to SQE,
// and the channel goes on. If the retries are exhausted, the peer is unreachable,
// and the channel ends.
func (e *EEC) sendError(now clock.Instant, status ib.WCStatus, cause string) {
	dead := status == ib.WCRetryExcErr
	if e.req.qp == nil {
		if dead {
			e.fatal(now, cause)
		}
		return // otherwise the peer refused a RESYNC, which is sent again
	}
	q := e.req.qp
	e.abandon(now, !dead)
	q.sendError(now, status, cause)
	if dead {
		e.fatal(now, cause)
	}
}

// suspend puts the current message on hold after an RNR NAK and serves other
// queue pairs meanwhile. The message later restarts from its beginning.
func (e *EEC) suspend(now clock.Instant, code uint8) {
	e.ep.env.Counters.RcvdRNRErr++
	e.ep.counts().RNRRcvd++
	if e.req.drained() {
		return
	}
	q := e.req.qp
	if q == nil {
		return
	}
	d := q.rd
	if e.ep.attr.RNRRetry != ib.RNRInfiniteRetry {
		if d.rnrLeft == 0 {
			e.ep.env.Counters.RetryRNRExceeded++
			e.sendError(now, ib.WCRNRRetryExcErr, "RNR retries exceeded")
			return
		}
		d.rnrLeft--
	}
	e.ep.env.Counters.RDSuspended++
	e.req.traceBack(trace.Retry, "receiver not ready")
	e.abandon(now, true)
	d.at, d.place, d.again = e, placeSuspended, true
	e.suspended.Set(q, now.Add(ib.RNRTimer(code)))
	e.ep.timers[timerRNR] = e.suspended.Next()
}

// resume puts queue pairs whose RNR timer has expired back in line.
func (e *EEC) resume(now clock.Instant) {
	for q := e.suspended.Due(now); q != nil; q = e.suspended.Due(now) {
		q.rd.place = placeLine
		e.line.push(q)
	}
	e.ep.timers[timerRNR] = e.suspended.Next()
	e.Wake()
}

// unsuspend removes a queue pair from the suspended ones.
func (e *EEC) unsuspend(q *QP) {
	e.suspended.Remove(q)
	e.ep.timers[timerRNR] = e.suspended.Next()
}

// fatal moves the EE context to ERR by itself. No completion names an EE context,
// so EEC_FATAL always reports it.
func (e *EEC) fatal(now clock.Instant, cause string) {
	if e.State() == ib.ERR {
		return
	}
	e.setState(ib.ERR, cause)
	e.ep.raise(ib.EventQPFatal)
	e.stop(now, ib.WCInvEECStateErr, cause)
}

// stop ends all activity of the EE context. The current work request, and the
// receive that a message is being placed in, complete with LOC_EEC_OP_ERR;
// waiting work requests complete with status.
func (e *EEC) stop(now clock.Instant, status ib.WCStatus, cause string) {
	r := &e.req
	e.ep.timers.stopAll()
	e.challenge.stop()
	e.sqd = drainState{}
	e.resp.silence()
	r.flight.Release()
	e.in.abort(now, ib.WCLocEECOpErr)
	var q *QP
	if r.qp != nil {
		q = e.handBack()
	}
	e.own.Reset()
	r.next, r.began = e.own.Cons(), e.own.Cons()
	e.idle()
	if q != nil {
		q.sendError(now, ib.WCLocEECOpErr, cause)
	}
	for q := e.dismiss(); q != nil; q = e.dismiss() {
		q.sendError(now, status, cause)
	}
}

// dismiss removes and returns one waiting queue pair; nil if there is none.
func (e *EEC) dismiss() *QP {
	q := e.line.pop()
	if q == nil {
		if e.suspended.Len() == 0 {
			return nil
		}
		q = e.suspended.All()[0]
		e.suspended.Remove(q)
	}
	q.rd.at, q.rd.place, q.rd.again = nil, placeQueue, false
	return q
}

// event returns the event of an EE context that is to it what t is to a queue pair.
func (e *EEC) event(t ib.EventType) Event { return Event{Type: t.OfEEC(), EEC: e.Num()} }
