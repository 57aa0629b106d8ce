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

	Links Links // used by the shard only
}

// Links belong to the shard: they link the ends into its lists and its heap, so
// that scheduling allocates nothing. The end itself never looks at them.
type Links struct {
	Active     bool          // on the list of ends with something to transmit
	NextActive *End          // next on that list
	Timer      deadline.Link // not later than the end's deadline
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

// Wake puts the end on the list of ends that may have packets to transmit.
func (e *End) Wake() { e.ep.env.Wake(e) }

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
