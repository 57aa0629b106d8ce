package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/deadline"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// End is what a shard gives its turns to: one end of a connection, or of the
// datagrams of a queue pair. It is an endpoint and the parts that work on it.
type End struct {
	ep   endpoint
	req  requester // what this side asks for
	comp completer // the answers to it
	in   receiver  // what the peer sends
	resp responder // how a reliable service answers it
	sqd  drainState

	challenge challenge // of what packets claim about the peer

	eec *EEC // what the end is one of; nil: a queue pair

	Links Links // the shard's
}

// Links belong to the shard: its lists and its heap run through the ends, so
// that scheduling one allocates nothing. The end itself never looks at them.
type Links struct {
	Active     bool          // on the list of ends with something to transmit
	NextActive *End          // next on that list
	Timer      deadline.Link // not later than the end's deadline
}

// init puts the parts together.
func (e *End) init(env *Env, num ib.QPN, typ ib.QPType) {
	e.ep.env, e.ep.num, e.ep.typ = env, num, typ
	e.ep.timers.stopAll()
	e.ep.mig.ep = &e.ep
	if e.ep.reliable() {
		e.ep.mig.req = &e.req
	}
	e.req = requester{ep: &e.ep, end: e, share: share{end: e}}
	e.comp = completer{ep: &e.ep, end: e, req: &e.req}
	e.in = receiver{ep: &e.ep}
	e.resp = responder{ep: &e.ep, end: e, in: &e.in}
	e.challenge.end = e
}

// State returns the state. Any goroutine may call it.
func (e *End) State() ib.QPState { return e.ep.State() }

// Transmit appends what the end has to send and may send, up to a quantum. It
// reports whether there is more that could go at once.
func (e *End) Transmit(now clock.Instant, b *fabric.Batch) (more bool) {
	if !e.ep.behaviour().sends() {
		return false
	}
	// The last batch may have had no room for responses, or the rate.
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
		if !responsesFirst && !e.ep.pace.allows(now) {
			e.resp.first = e.resp.owes() // requests have had what the rate allows
		}
	}
	e.req.share.yield()
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
			e.req.share.timeout(now)
		case timerLoss:
			e.req.repair.probe(now)
		case timerLanding:
			e.req.repair.step(now)
		case timerPace:
			e.wake()
		case timerChallenge:
			e.challenge.timeout(now)
		}
	}
}

// Deadline returns when Advance is next needed.
func (e *End) Deadline() clock.Instant { return e.ep.timers.next() }

// OnFirst sets what is called, once, when the next request that is in sequence
// arrives, before it is executed. It may end the QP, or the EE context: move it
// to ERR or RESET, or destroy it; no other move. Nil calls nothing.
func (e *End) OnFirst(f func(now clock.Instant)) { e.in.onFirst = f }

// wake puts the end on the list of those that may have something to transmit.
func (e *End) wake() { e.ep.env.Wake(e) }

// mine reports whether the next work request is this end's to send: an EE context
// has one at a time, and queue pairs of reliable datagrams have it sent by those.
func (e *End) mine() bool {
	if e.eec != nil {
		return e.eec.turn()
	}
	return e.ep.typ != ib.RD
}

// address says in a request which queue pair it is for and whose it is, where
// the connection alone does not.
func (e *End) address(p *roce.Packet) {
	if e.eec != nil {
		p.BTH.DestQP, p.DETH = e.eec.dest, e.eec.deth
	}
}

// settled is called when work requests may have ended.
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
