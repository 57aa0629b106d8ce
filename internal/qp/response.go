package qp

import (
	"encoding/binary"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// wanted returns the next work request that is answered by data, nil if there
// is none, and the PSN of that answer.
func (c *completer) wanted() (*begunWR, ib.PSN) {
	r := c.req
	for i := r.queue.Cons(); i != r.began; i++ {
		if w := r.queue.at(i); w.kind == begunAnswered {
			if c.flight.Una().Diff(w.first) > 0 {
				return w, c.flight.Una()
			}
			return w, w.first
		}
	}
	return nil, ib.PSN{}
}

// missing handles a response that arrives ahead of a missing one: it buffers
// the response and requests the missing one again.
func (c *completer) missing(now clock.Instant, p *Packet) {
	if w, next := c.wanted(); w != nil && c.ep.env.Reorder != nil {
		if p.Info.Kind == roce.KindAck {
			c.holdAck(w, p)
		} else if p.BTH.PSN.Diff(next) > 0 {
			c.hold(now, next, p)
		}
	}
	c.impliedNAK(now)
}

// keep buffers a response until the earlier ones arrive. It drops a copy of a
// buffered one.
func (c *completer) hold(now clock.Instant, next ib.PSN, p *Packet) {
	if c.reorder.has(p.BTH.PSN) {
		c.ep.drop(counters.DropDuplicate, p)
		return
	}
	if c.port != 0 && c.port != p.Data.SrcPort {
		c.ep.drop(counters.DropDoubt, p)
		return
	}
	if c.reorder == nil {
		c.reorder = &reorderBuffer{pool: c.ep.env.Reorder}
	}
	if c.reorder.store(now, next, p) {
		c.ep.env.Counters.EarlyKept++
		c.flight.Landed(p.BTH.PSN.Next()) // responses are sent in order, so earlier ones have arrived or are lost
	} else {
		c.ep.env.Counters.EarlyRefused++
	}
}

// keepAck holds the acknowledgement with the highest PSN until the response to
// w arrives.
func (c *completer) holdAck(w *begunWR, p *Packet) {
	if c.acked == nil {
		if c.acked = c.ep.env.Reorder.getOne(0); c.acked == nil {
			c.ep.env.Counters.EarlyRefused++
			return
		}
	} else if p.BTH.PSN.Diff(c.acked.BTH.PSN) < 0 {
		return
	}
	c.acked.copy(p)
	c.after = w.last
}

// clear forgets buffered responses and the peer's port.
func (c *completer) clear() {
	c.port = 0
	c.forgetLost()
	c.reorder.clear()
	if c.acked != nil {
		c.ep.env.Reorder.putOne(c.acked)
		c.acked = nil
	}
}

// answersRead reports whether psn is in the part of the oldest work request, a
// READ, that has been answered.
func (c *completer) answersRead(psn ib.PSN) bool {
	if c.req.drained() {
		return false
	}
	r := c.req
	w := r.queue.oldest()
	return w.request().operation().psns == psnPerResponse && psn.InWindow(w.first, c.flight.Una().Distance(w.first))
}

// receiveReadResponse places the data of a READ (E26, E28).
func (c *completer) receiveReadResponse(now clock.Instant, p *Packet) {
	w := c.awaiting(now, p, "READ response to another operation")
	if w == nil {
		return
	}
	r := c.req
	psn := p.BTH.PSN
	if psn != c.flight.Una() { // an earlier response is missing
		c.missing(now, p)
		return
	}
	start := p.Info.Flags&roce.FlagStart != 0
	if start == r.read.inMessage && psn != r.read.restart {
		c.badResponse(now, p, "READ response out of order")
		return
	}
	if p.Info.Headers&roce.HasAETH != 0 && !p.AETH.Syndrome.IsACK() {
		c.badResponse(now, p, "READ response with a NAK syndrome")
		return
	}
	_, last := c.req.chunk.at(w, psn)
	end := psn == last
	off := psn.Distance(w.first) * uint32(c.ep.mtu)
	ends := p.Info.Flags&roce.FlagEnd != 0
	if len(p.Payload) != int(min(w.returned()-off, uint32(c.ep.mtu))) || ends != end && !(ends && c.flight.Parts()) {
		if c.doubts(now, p) {
			return
		}
		c.end.fail(now, ib.WCLocLenErr, "READ response of a wrong length")
		return
	}
	if !c.store(p.Payload, off) {
		c.end.fail(now, ib.WCLocProtErr, "READ data cannot be stored")
		return
	}
	c.from(p)
	c.req.advance(now, psn.Next())
	c.challenge.heard(now)
	r.read.inMessage = !end
	if end {
		c.answered(now, p, psn == w.last)
	}
}

// receiveAtomicAck stores the original value of an atomic.
func (c *completer) receiveAtomicAck(now clock.Instant, p *Packet) {
	w := c.awaiting(now, p, "atomic acknowledge to another operation")
	if w == nil {
		return
	}
	if !p.AETH.Syndrome.IsACK() {
		c.badResponse(now, p, "atomic acknowledge with a NAK syndrome")
		return
	}
	var value [atomicSize]byte
	binary.NativeEndian.PutUint64(value[:], p.AtomicAck) // atomics exchange numbers, not bytes
	if !c.store(value[:], 0) {
		c.end.fail(now, ib.WCLocProtErr, "atomic result cannot be stored")
		return
	}
	c.from(p)
	c.req.advance(now, p.BTH.PSN.Next())
	c.challenge.heard(now)
	c.answered(now, p, true)
}

// from notes the source port of the expected response.
func (c *completer) from(p *Packet) {
	c.port = p.Data.SrcPort
	c.reorder.from(c.port)
}

// store scatters data at byte offset off of the response to the oldest work
// request.
func (c *completer) store(data []byte, off uint32) bool {
	r := c.req
	if len(data) == 0 {
		return true
	}
	f := c.ep.env.Mem.Scatter(data, r.qp.via.PD, r.queue.sges(r.queue.Cons()), uint64(off))
	return f == memory.FaultNone || denied(c.ep, "response", f)
}

// answered ends one READ or atomic request; whole: its work request is
// complete.
func (c *completer) answered(now clock.Instant, p *Packet, whole bool) {
	if c.req.rdOut > 0 {
		c.req.rdOut--
	}
	if p.Info.Headers&roce.HasAETH != 0 {
		c.req.credits(p.AETH.MSN, p.AETH.Syndrome.Value())
	}
	if whole {
		c.flight.Answered(p.BTH.PSN)
		c.req.complete(now, ib.WCSuccess)
		c.reapLocal(now)
	}
}

// awaiting acknowledges the requests before the work request that p answers and
// returns that work request, now the oldest. It returns nil if an earlier READ
// or atomic still lacks its response, which it requests again, or if the QP
// failed, with the given cause if p answers another kind of request.
func (c *completer) awaiting(now clock.Instant, p *Packet, cause string) *begunWR {
	r, psn := c.req, p.BTH.PSN
	v := c.covered(psn)
	var w *begunWR
	if !v.all {
		w = r.queue.at(v.end)
	}
	if w == nil || psn.Diff(w.last) <= 0 && w.request().operation().answer.kind != p.Info.Kind {
		if c.doubts(now, p) {
			return nil
		}
		if !c.challenge.on(claimAny) { // otherwise nothing proves that the peer received the earlier requests
			c.complete(now, c.before(psn))
		}
		if c.ep.State() != ib.ERR {
			c.end.fail(now, ib.WCBadRespErr, cause)
		}
		return nil
	}
	if p.Info.Headers&roce.HasAETH != 0 {
		if c.refusesMSN(p, v.msn) {
			return nil
		}
	} else if v.end != r.queue.Cons() && c.challenge.on(claimAny) { // nothing proves that the peer received the earlier messages
		c.missing(now, p)
		return nil
	}
	if v.to != c.flight.Una() {
		if c.complete(now, v); c.ep.State() == ib.ERR {
			return nil
		}
	}
	if psn.Diff(w.last) > 0 {
		c.missing(now, p)
		return nil
	}
	return w
}

// badResponse fails the oldest work request: the peer's response does not fit
// it (E24).
func (c *completer) badResponse(now clock.Instant, p *Packet, cause string) {
	if c.ep.State() != ib.ERR && !c.doubts(now, p) {
		c.end.fail(now, ib.WCBadRespErr, cause)
	}
}

// impliedNAK goes back to the oldest PSN: a later response shows that a READ or
// atomic response was lost. It does so once until there is progress.
func (c *completer) impliedNAK(now clock.Instant) {
	if c.retry.Repeated() || c.retry.Waiting() {
		return
	}
	c.ep.env.Counters.ImpliedNAKSeqErr++
	c.req.lostPackets(now, "implied NAK", c.gap(), flow.Gap)
}

// hole returns the number of missing responses before the first buffered one, or
// else to the end of the oldest request.
func (c *completer) gap() uint32 {
	w, next := c.wanted()
	if w == nil {
		return 1
	}
	if first, ok := c.reorder.first(next); ok {
		return first.Distance(c.flight.Una())
	}
	_, last := c.req.chunk.at(w, next)
	return last.Next().Distance(c.flight.Una())
}
