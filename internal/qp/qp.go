package qp

import (
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
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
	via memory.Via
	sq  sendQueue
	rq  recvQueue  // without memory unless it exists
	srq *SRQ       // nil: the QP has its own receive queue
	rd  *rdSide    // nil unless the service is RD; its methods then do nothing
	xrc *xrcTarget // nil unless the QP is an XRC target; likewise

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
	Via    memory.Via // its protection domain, none for an XRC target, and a number that no other queue pair ever has
	SendCQ *CQ        // nil for an XRC target
	RecvCQ *CQ        // nil for both ends of XRC
	SRQ    *SRQ       // nil for a receive queue of its own
	RDD    *RDD       // RD only
	XRCD   *XRCD      // XRC targets only
	Cap    ib.QPCap   // actual sizes are rounded up
	SigAll bool
	Flags  ib.QPCreateFlags

	// Queues allocates the memory of the queues; zero: Env.Queues does.
	Queues ring.Allocator
}

// QueueBytes returns how much memory New allocates for a send and a receive queue.
func QueueBytes(t ib.QPType, c *ib.QPCap) (send, recv int) {
	return ring.Bytes[ring.SendWQE](c.MaxSendWR, sendRoom(t, c)), SRQBytes(c.MaxRecvWR, c.MaxRecvSGE)
}

// New returns a QP in RESET (Q4). The caller has checked the configuration.
// ENOMEM or EINVAL if there is no memory for the queues.
func New(env *Env, c Config) (*QP, error) {
	q := &QP{srq: c.SRQ}
	q.init(env, c.Num, c.Type, q)
	q.via, q.sender = c.Via, &q.End
	q.req.qp, q.req.queue = q, &q.sq
	q.in.qp, q.in.from, q.in.cq = q, &q.rq, c.RecvCQ
	q.in.blocksSelf = c.Flags&ib.CreateBlockSelfMcastLB != 0
	q.sq.cq, q.sq.sigAll = c.SendCQ, c.SigAll
	if c.Type == ib.XRCTgt {
		q.xrc = newXRCTarget(q, c.XRCD)
	}
	memory := c.Queues.Or(env.Queues)
	if err := q.sq.init(q.xrc.sendMemory(memory), c.Type, c.Cap); err != nil {
		return nil, err
	}
	if c.SRQ != nil {
		q.in.from = c.SRQ
		q.in.hold(c.SRQ.rq.maxSGE)
		c.SRQ.Hold()
	} else if !onXRC.has(c.Type) {
		if err := q.rq.init(memory, c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE); err != nil {
			q.sq.Free()
			return nil, err
		}
	}
	if c.Type == ib.RD {
		q.rd = newRDSide(q, c.RDD)
		q.sender = q.rd
	}
	c.SendCQ.Hold()
	c.RecvCQ.Hold()
	q.req.reset()
	q.ep.beginTrack(env.Table, identity(q, &c))
	return q, nil
}

// Num returns the QPN.
func (q *QP) Num() ib.QPN { return q.ep.num }

// Type returns the transport service.
func (q *QP) Type() ib.QPType { return q.ep.typ }

// PD returns the protection domain; for an XRC target, that of the latest request.
func (q *QP) PD() memory.PD { return q.via.PD }

// SendCQ returns the CQ of send completions, nil for an XRC target.
func (q *QP) SendCQ() *CQ { return q.sq.cq }

// RecvCQ returns the CQ of receive completions, nil for both ends of XRC.
func (q *QP) RecvCQ() *CQ {
	if q.xrc != nil {
		return nil
	}
	return q.in.cq
}

// SRQ returns the shared receive queue, nil if the QP has one of its own.
func (q *QP) SRQ() *SRQ { return q.srq }

// Cap returns the actual sizes of the queues (V5).
func (q *QP) Cap() ib.QPCap {
	sq, rq := &q.sq, &q.rq
	if q.xrc != nil {
		return ib.QPCap{}
	}
	c := ib.QPCap{MaxSendWR: sq.Cap(), MaxSendSGE: sq.maxSGE, MaxInlineData: sq.maxInline}
	if q.rq.exists() {
		c.MaxRecvWR, c.MaxRecvSGE = rq.Cap(), rq.maxSGE
	}
	return c
}

// Queues returns the headers of the send queue, which is nil for an XRC target, and of
// the receive queue, which is nil for a QP with an SRQ and for both ends of XRC. They do
// not move until Destroy.
func (q *QP) Queues() (send, recv *ring.Header) {
	if q.xrc == nil {
		send = q.sq.Header()
	}
	if q.rq.exists() {
		recv = q.rq.Header()
	}
	return send, recv
}

// Receive processes one packet for this QP.
func (q *QP) Receive(now clock.Instant, p *Packet) {
	switch {
	case !q.ep.take(p):
	case onResponses.has(q.ep.typ) && p.Info.Flags&roce.FlagResponse != 0:
		if q.comp.receiveResponse(now, p) {
			q.settled(now)
			q.sendOn()
		}
	case onRequests.has(q.ep.typ) && p.Info.Flags&roce.FlagResponse == 0:
		q.resp.receiveRequest(now, p)
	case q.ep.typ == ib.UC:
		q.in.receiveUC(now, p)
	case onDatagrams.has(q.ep.typ):
		q.in.receiveUD(now, p)
	default: // an EE context receives for RD queue pairs; an end of XRC takes one direction
		q.ep.drop(counters.DropService, p)
	}
	q.reportReceived()
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
// and its unpolled completions vanish, and its memory windows of type 2 are unbound. Its queue memory goes back to the
// allocator, so posting must have ended.
func (q *QP) Destroy() {
	sq, rq := &q.sq, &q.rq
	q.rd.leave(q.ep.env.now, ib.WCSuccess)
	sq.mu.Lock()
	rq.mu.Lock()
	q.clear()
	q.unschedule()
	q.ep.state.Store(uint32(ib.RESET))
	q.ep.endTrack()
	rq.mu.Unlock()
	sq.mu.Unlock()
	sq.cq.Release()
	q.RecvCQ().Release()
	q.rd.destroy()
	q.xrc.destroy()
	q.ep.env.Mem.Leave(q.via.QP)
	sq.Free()
	if q.srq != nil {
		q.srq.Release()
	} else if q.rq.exists() {
		rq.Free()
	}
}

// End is the unit that a shard schedules: an RC, UC or UD queue pair's own end,
// or an EE context. It is an endpoint and the parts that work on it.
type End struct {
	ep   endpoint
	req  requester // sends this side's requests
	comp completer // handles their responses
	in   receiver  // receives the peer's messages
	resp responder // answers them, for a reliable service
	sqd  drainState

	challenge challenge // checks claims that packets make about the peer

	links links
}

// owner is what an end belongs to: a queue pair, or an EE context, which works for many
// queue pairs. The parts of an end call it where the two differ, which is when something
// goes wrong.
type owner interface {
	// sendError ends the oldest work request with an error.
	sendError(now clock.Instant, status ib.WCStatus, cause string)
	// suspend puts the oldest work request on hold after an RNR NAK with a timer code.
	suspend(now clock.Instant, code uint8)
	// resume continues when the timer of suspend expires.
	resume(now clock.Instant)
	// settled is called when work requests may have completed.
	settled(now clock.Instant)

	// refuse answers the request at psn with the NAK of a fault, and ends what the fault ends.
	refuse(psn ib.PSN, f fault)
	// notReady is called before a request is answered with an RNR NAK.
	notReady(s roce.Syndrome)
	// cannotRepeat is called for a duplicate request whose answer is not kept.
	cannotRepeat(p *Packet)
	// regionGone is called when a READ is answered again and its memory is no longer
	// accessible from the response at psn on.
	regionGone(psn ib.PSN)

	// event returns an event of a queue pair, or the same about an EE context.
	event(t ib.EventType) Event
}

// init puts the parts together.
func (e *End) init(env *Env, num ib.QPN, typ ib.QPType, o owner) {
	e.ep.env, e.ep.num, e.ep.typ, e.ep.traits, e.ep.owner = env, num, typ, traitsOf(typ), o
	e.ep.path = Path{Port: env.port(1)}
	e.ep.timers.stopAll()
	mig := &e.ep.mig
	mig.ep, mig.end = &e.ep, e
	if e.ep.reliable() {
		mig.req, mig.challenge = &e.req, &e.challenge
	}
	e.req = requester{ep: &e.ep, end: e, comp: &e.comp, resp: &e.resp, challenge: &e.challenge,
		flight: newFlight(e), retry: flow.NewRetry(&e.ep.timers[timerAck], &e.ep.timers[timerRNR])}
	e.comp = completer{ep: &e.ep, end: e, req: &e.req, challenge: &e.challenge, flight: &e.req.flight, retry: &e.req.retry}
	e.in = receiver{ep: &e.ep}
	e.resp = responder{ep: &e.ep, end: e, in: &e.in}
	e.challenge = challenge{ep: &e.ep, end: e, req: &e.req, comp: &e.comp, flight: &e.req.flight}
}

// newFlight returns the flight of an end's requester.
func newFlight(e *End) flow.Recovery {
	t := &e.ep.timers
	return flow.NewRecovery(e, e.ep.num, flow.Timers{Room: &t[timerProbe], Probe: &t[timerLoss], Estimate: &t[timerEstimate]})
}

// State returns the state. Any goroutine may call it.
func (e *End) State() ib.QPState { return e.ep.State() }

// Transmit appends up to a quantum of the packets that the end may send. It
// reports whether it could send more at once.
func (e *End) Transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	if !e.ep.behaviour().sends() {
		return false
	}
	// In the last turn the batch or the rate may have had no room for
	// responses.
	responsesFirst := e.resp.first || e.ep.env.AnswersFirst && e.resp.owes()
	if responsesFirst {
		if e.resp.first = e.resp.sendResponses(now, b); e.resp.first {
			return true
		}
	}
	if e.challenge.owed && !e.challenge.send(b) {
		return true
	}
	more = e.req.transmit(now, b)
	if e.resp.owes() {
		e.resp.first = e.resp.sendResponses(now, b)
		more = more || e.resp.first
		if !responsesFirst && !e.ep.pace.Allows(now) {
			e.resp.first = e.resp.owes() // requests used up the rate
		}
	}
	e.req.flight.Yield()
	e.report()
	return more
}

// owes reports whether responses are waiting to be sent.
func (r *responder) owes() bool { return r.reply.kind != replyNone || r.kept.pending() }

// pending reports whether an entry has something to send.
func (s *resources) pending() bool { return s.out < s.n }

// Advance fires the timers that are due.
func (e *End) Advance(now clock.Instant) {
	for t := range numTimers {
		if e.ep.timers[t] > now {
			continue
		}
		e.ep.timers[t] = clock.Never
		switch t {
		case timerAck:
			e.req.ackTimeout(now)
		case timerRNR:
			e.ep.owner.resume(now)
		case timerProbe:
			e.req.flight.RoomTimeout(now)
		case timerLoss:
			e.req.probe(now)
		case timerEstimate:
			e.req.flight.EstimateTimeout(now)
		case timerPace:
			e.Wake()
		case timerChallenge:
			e.challenge.timeout(now)
		}
	}
}

// Deadline returns when Advance is next needed.
func (e *End) Deadline() clock.Instant { return e.ep.timers.next() }

// OnFirst sets a function that is called once, before the next in-sequence
// request is executed. It may end the QP or the EE context: move it to ERR or
// RESET, or destroy it; it may make no other move. Nil calls nothing.
func (e *End) OnFirst(f func(now clock.Instant)) { e.in.onFirst = f }

// fail ends the oldest work request with an error.
func (e *End) fail(now clock.Instant, status ib.WCStatus, cause string) {
	e.ep.owner.sendError(now, status, cause)
}

// Enter sets the current time. Every call into the shard, or into one of its ends, begins
// with it, for code that has no parameter for the time.
func (e *Env) Enter(now clock.Instant) { e.now = now }

// EnterBatch notes that packets will be appended to b. An empty b counts as a new batch: all earlier
// packets of its port have been sent.
func (e *Env) EnterBatch(b *fabric.Batch) {
	if len(b.Pending()) == 0 {
		e.batch++
	}
}

// links are an end's entries in the list of active ends of its path's port and in the
// shard's heap of timers, so that scheduling allocates nothing.
type links struct {
	active bool
	next   *End          // on the list of active ends
	timer  deadline.Link // due no later than the end's deadline
}

// Timers is a heap of ends by an instant that is not later than their
// deadline. A deadline that moves later, as a retry timer does with each
// acknowledgement, costs nothing: the end comes up early and is put back.
type Timers struct{ deadline.Heap[End] }

// NewTimers returns an empty heap.
func NewTimers() Timers {
	return Timers{deadline.New(func(e *End) *deadline.Link { return &e.links.timer })}
}

// Arm puts the end into the heap of timers at its deadline, unless it is already there at
// an earlier instant. The shard calls it after each packet and timer; Modify, Force,
// Challenge and AddressLost call it themselves.
func (e *End) Arm() {
	if at := e.Deadline(); at < e.links.timer.At() {
		e.ep.env.Timers.Set(e, at)
	}
}

// Wake puts the end on the list of ends that may have packets to transmit from the port
// of its path.
func (e *End) Wake() { e.ep.path.Port.Active.push(e) }

// setPath changes the path. An end that waits for its turn waits at the port of the new path.
func (e *End) setPath(p Path) {
	active := e.links.active
	if p.Port != e.ep.path.Port {
		e.ep.path.Port.Active.remove(e)
	}
	if e.ep.path = p; active {
		e.Wake()
	}
}

// sendPosted has the posted work requests sent in the end's next turn.
func (e *End) sendPosted(clock.Instant) { e.Wake() }

// sendOn wakes the end if its state sends.
func (e *End) sendOn() {
	if e.ep.behaviour().sends() {
		e.Wake()
	}
}

// unschedule removes the end from the heap of timers and the list of active ends.
func (e *End) unschedule() {
	e.ep.env.Timers.Remove(e)
	e.ep.path.Port.Active.remove(e)
}

// ActiveList is the queue of ends that may have packets to transmit from a port.
type ActiveList struct{ head, tail *End }

// Empty reports whether the list is empty.
func (l *ActiveList) Empty() bool { return l.head == nil }

// Pop removes and returns the first end, nil if there is none.
func (l *ActiveList) Pop() *End {
	e := l.head
	if e == nil {
		return nil
	}
	l.head = e.links.next
	if l.head == nil {
		l.tail = nil
	}
	e.links.next, e.links.active = nil, false
	return e
}

func (l *ActiveList) push(e *End) {
	if e.links.active {
		return
	}
	e.links.active = true
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.links.next = e
	}
	l.tail = e
}

func (l *ActiveList) remove(e *End) {
	if !e.links.active {
		return
	}
	var before *End
	for x := l.head; x != e; x = x.links.next {
		before = x
	}
	if before == nil {
		l.Pop()
		return
	}
	before.links.next = e.links.next
	if l.tail == e {
		l.tail = before
	}
	e.links.next, e.links.active = nil, false
}
