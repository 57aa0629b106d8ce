package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/roce"
)

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

	eec *EEC // the EE context of this end; nil: a queue pair's

	links links
}

// init puts the parts together.
func (e *End) init(env *Env, num ib.QPN, typ ib.QPType) {
	e.ep.env, e.ep.num, e.ep.typ, e.ep.service = env, num, typ, serviceOf(typ)
	e.ep.timers.stopAll()
	e.ep.mig.ep = &e.ep
	if e.ep.reliable() {
		e.ep.mig.req = &e.req
	}
	e.req = requester{ep: &e.ep, end: e, share: flow.NewShare(e, num, &e.ep.timers[timerProbe])}
	e.comp = completer{ep: &e.ep, end: e, req: &e.req}
	e.in = receiver{ep: &e.ep}
	e.resp = responder{ep: &e.ep, end: e, in: &e.in}
	e.challenge.end = e
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
	e.req.share.Yield()
	return more
}

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
			e.req.rnrTimeout(now)
		case timerProbe:
			e.req.share.Timeout(now)
		case timerLoss:
			e.req.repair.probe(now)
		case timerLanding:
			e.req.repair.step(now)
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

// mine reports whether this end may send the requester's next work request. An EE
// context sends one at a time; RD queue pairs never send, their EE contexts do.
func (e *End) mine() bool {
	if e.eec != nil {
		return e.eec.turn()
	}
	return e.ep.typ != ib.RD
}

// address sets the destination and source queue pair of a request, for services
// where the connection does not imply them.
func (e *End) address(p *roce.Packet) {
	if e.eec != nil {
		p.BTH.DestQP, p.DETH = e.eec.dest, e.eec.deth
	}
}

// settled is called when work requests may have completed.
func (e *End) settled(now clock.Instant) {
	if e.eec != nil {
		e.eec.settled(now)
		return
	}
	e.req.qp.checkDrained()
}

// fail ends the oldest work request with an error.
func (e *End) fail(now clock.Instant, status ib.WCStatus, cause string) {
	if e.eec != nil {
		e.eec.fail(now, status, cause)
		return
	}
	e.req.qp.sendError(now, status, cause)
}

// Enter sets the current time. Every call into the shard, or into one of its ends, begins
// with it, for code that has no parameter for the time.
func (e *Env) Enter(now clock.Instant) { e.now = now }

// links are an end's entries in the shard's list of active ends and in its heap of
// timers, so that scheduling allocates nothing.
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

// Wake puts the end on the list of ends that may have packets to transmit.
func (e *End) Wake() { e.ep.env.Active.push(e) }

// unschedule removes the end from the heap of timers and the list of active ends.
func (e *End) unschedule() {
	e.ep.env.Timers.Remove(e)
	e.ep.env.Active.remove(e)
}

// ActiveList is the queue of ends that may have packets to transmit.
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
