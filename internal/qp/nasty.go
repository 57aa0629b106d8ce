package qp

import (
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/nasty"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// This file has the behaviours of Env.Nasty on the wire: lost responses, RNR NAKs, and delayed
// requests. None of them makes a work request fail.

// Bounds of the behaviours.
const (
	lossOdds    = 32 // of this number of responses, one is lost on average
	lossRetries = 2  // minimum retry count of a queue pair whose responses are lost
	lossPause   = 100 * time.Millisecond

	rnrOdds    = 16 // of this number of requests, one gets an RNR NAK on average
	rnrRetries = 2  // minimum RNR retry count of its peer
	rnrCode    = 20 // of the longest timer: 10.24 ms
	rnrShare   = 16 // the peer waits for at most 1/16 of the time

	delayOdds = 16 // of this number of work requests, one begins late on average
	maxDelay  = 200 * time.Microsecond
)

// losses are the lost responses of an end. A response is lost only if the requester has the retries
// to repeat its request. But the peer may be gone by then: its program was free to end when it saw
// the message. So the end keeps the last lost response, and processes it when the peer does not answer
// the repetition, and before the queue pair enters ERR.
type losses struct {
	kept     *heldPacket // nil: none
	repeated bool        // a timer has found its request unanswered
	next     clock.Instant
}

// loses reports whether a response to a request in flight is lost.
func (c *completer) loses(now clock.Instant, p *Packet) bool {
	d, l := c.ep.env.Nasty, &c.losses
	if !d.Has(nasty.Losses) {
		return false
	}
	if l.kept != nil && l.kept.BTH.PSN.Diff(c.flight.Una()) < 0 {
		c.forgetLost() // its request was repeated, or a later response acknowledged it
	}
	if l.kept != nil || now < l.next || !c.mayLose(p) || !d.OneIn(nasty.Losses, lossOdds) {
		return false
	}
	k := c.ep.env.Reorder.getOne(len(p.Payload))
	if k == nil {
		return false
	}
	k.copy(p)
	*l = losses{kept: k, next: now.Add(lossPause)}
	traceNasty(c.ep, p, "nasty: the response is lost")
	return true
}

// mayLose reports whether the requester can repeat a request whose response p is lost. While
// the requester repairs a loss or examines a claim of the peer, no response is lost.
func (c *completer) mayLose(p *Packet) bool {
	a := &c.ep.attr
	ack := p.Info.Headers&roce.HasAETH == 0 || p.AETH.Syndrome.IsACK()
	return ack && a.Timeout != 0 && a.RetryCnt >= lossRetries && c.ep.env.Reorder != nil &&
		!c.retry.Repeated() && !c.retry.Waiting() && !c.flight.Sending() && !c.flight.Waiting() &&
		!c.buffers() && c.acked == nil && c.challenge.idle() && !c.challenge.unheard
}

// overdue is called when a timer finds that the peer is silent. It reports whether it has found a
// lost response, so that the timer has no effect. The first time, the request is repeated.
func (c *completer) overdue(now clock.Instant) bool {
	l := &c.losses
	if l.kept != nil && !l.repeated {
		l.repeated = true
		return false
	}
	return c.find(now)
}

// find processes the lost response as if it arrived now, and reports whether it acknowledges
// anything.
func (c *completer) find(now clock.Instant) bool {
	k := c.losses.kept
	una := c.flight.Una()
	if k == nil || k.BTH.PSN.Diff(una) < 0 || !c.ep.behaviour().takesResponses() {
		return false
	}
	c.losses.kept = nil
	traceNasty(c.ep, &k.Packet, "nasty: the lost response is found")
	c.process(now, &k.Packet)
	c.ep.env.Reorder.putOne(k)
	c.ep.owner.settled(now)
	c.end.sendOn()
	return c.flight.Una() != una
}

// findLost processes the end's lost response.
func (e *End) findLost(now clock.Instant) { e.comp.find(now) }

// forgetLost drops the lost response.
func (c *completer) forgetLost() {
	if c.losses.kept != nil {
		c.ep.env.Reorder.putOne(c.losses.kept)
		c.losses.kept = nil
	}
}

// delay is how long the next work request waits.
type delay struct {
	decided bool
	qp      *QP    // of the work request
	index   uint32 // of the work request in its queue
	until   clock.Instant
}

// applies reports whether the requester's next work request waits before it begins. A timer then
// wakes the end.
func (w *delay) applies(now clock.Instant, r *requester) bool {
	d := r.ep.env.Nasty
	if !d.Has(nasty.Delays) {
		return false
	}
	if !w.decided || w.qp != r.qp || w.index != r.next {
		*w = delay{decided: true, qp: r.qp, index: r.next}
		if d.OneIn(nasty.Delays, delayOdds) {
			w.until = now.Add(d.Time(nasty.Delays, maxDelay))
		}
	}
	if w.until <= now {
		return false
	}
	r.ep.timers[timerPace] = min(r.ep.timers[timerPace], w.until)
	return true
}

// peerRNR is what this end knows about its peer's RNR retries.
type peerRNR struct {
	peer    ib.QPN
	retries uint8
	next    clock.Instant // no RNR NAK without a cause before
	refused bool          // an RNR NAK
	psn     ib.PSN        // has refused the request at psn
}

// PeerRetries says that the connection manager has asked the peer, queue pair number peer, to repeat
// a request n times after RNR NAKs. RESET clears it.
func (e *End) PeerRetries(peer ib.QPN, n uint8) {
	k := &e.resp.peerRNR
	k.peer, k.retries = peer, n
}

// refuses reports whether a request that takes a receive gets an RNR NAK although there is one:
// the receive waits for the repetition. No request gets a second RNR NAK.
func (k *peerRNR) refuses(now clock.Instant, r *responder, p *Packet) bool {
	d := r.ep.env.Nasty
	if !d.Has(nasty.RNR) || !p.TakesReceive() || r.late || k.retries < rnrRetries || k.peer != r.ep.attr.DestQPN ||
		k.refused && k.psn == p.BTH.PSN || now < k.next || !d.OneIn(nasty.RNR, rnrOdds) {
		return false
	}
	k.next = now.Add(rnrShare * ib.RNRTimer(nastyRNRTimer(r.in.rnrTimer())))
	r.in.putOff()
	traceNasty(r.ep, p, "nasty: RNR NAK although there is a receive")
	return true
}

// nastyRNRTimer returns the timer code of an RNR NAK without a cause: the queue pair's, unless that is
// long. The attribute is for the RNR NAKs of a queue without receives, and 0 is the longest time.
func nastyRNRTimer(code uint8) uint8 {
	if ib.RNRTimer(code) > ib.RNRTimer(rnrCode) {
		return rnrCode
	}
	return code
}

// note notes an RNR NAK.
func (k *peerRNR) note(p *Packet) { k.refused, k.psn = true, p.BTH.PSN }

// traceNasty records what happened to a packet.
func traceNasty(ep *endpoint, p *Packet, cause string) {
	if ep.env.Trace == nil {
		return
	}
	r := trace.Record{Kind: trace.Fault, PSN: p.BTH.PSN, Len: p.Size, Cause: cause}
	p.PutHeaders(r.Header[:])
	ep.record(r)
}
