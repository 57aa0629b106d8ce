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

// completer matches the peer's responses to the requests that were sent.
type completer struct {
	ep        *endpoint
	end       *End
	req       *requester
	challenge *challenge
	flight    *flow.Recovery // the requester's
	retry     *flow.Retry    // the requester's
	early     *keeper        // reorder buffer for responses after a gap
	acked     *keptPacket    // last acknowledgement received after a missing response; nil if none
	after     ib.PSN         // with acked: the last PSN of the missing response
	port      uint16         // UDP source port of the last response with data; 0: none
	msn       msnPolicy
	doubt     doubt
}

// receiveResponse matches a response to the requests by its PSN: before una it
// is old, from fresh on it was never sent, between them it answers outstanding
// work requests, the oldest first (E20–E28). It reports whether it answers any: they
// may be complete.
func (c *completer) receiveResponse(now clock.Instant, p *Packet) bool {
	psn := p.BTH.PSN
	switch ahead := psn.Diff(c.flight.Una()); {
	case ahead < 0:
		c.oldResponse(now, p)
		return false
	case psn.Diff(c.flight.Fresh()) >= 0:
		if !c.answersProbe(now, p) {
			c.ep.drop(counters.DropGhost, p)
		}
		return false
	case c.ep.refusesID(p):
		c.ep.drop(counters.DropICRC, p)
		return false
	}
	if !c.ep.follow(now, p) {
		return false
	}
	c.ep.learnID(p)
	c.take(now, p)
	c.catchUp(now)
	c.req.judge(now)
	c.req.reapFailed(now)
	return true
}

// take handles a response to a request in flight.
func (c *completer) take(now clock.Instant, p *Packet) {
	switch p.Info.Kind {
	case roce.KindAck:
		c.receiveAck(now, p)
	case roce.KindReadResponse:
		c.receiveReadResponse(now, p)
	case roce.KindAtomicAck:
		c.receiveAtomicAck(now, p)
	default:
		c.badResponse(now, p, "response with a request's opcode")
	}
}

// catchUp processes buffered responses in order, as if they arrived now, and
// asks for the next missing one.
func (c *completer) catchUp(now clock.Instant) {
	taken := false
	for c.buffers() && c.ep.behaviour().takesResponses() {
		w, next := c.wanted()
		if w == nil {
			c.early.clear()
			break
		}
		k := c.early.take(now, next)
		if k == nil {
			break
		}
		taken = true
		c.take(now, &k.Packet)
		c.ep.env.Keep.put(k)
	}
	if k := c.acked; k != nil && (taken || c.flight.Una().Diff(c.after) > 0) && c.ep.behaviour().takesResponses() {
		c.acked = nil
		if k.BTH.PSN.Diff(c.flight.Una()) >= 0 {
			c.take(now, &k.Packet)
		}
		c.ep.env.Keep.putOne(k)
	}
	if taken && c.buffers() {
		c.impliedNAK(now)
	}
}

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
	if w, next := c.wanted(); w != nil && c.ep.env.Keep != nil {
		if p.Info.Kind == roce.KindAck {
			c.keepAck(w, p)
		} else if p.BTH.PSN.Diff(next) > 0 {
			c.keep(now, next, p)
		}
	}
	c.impliedNAK(now)
}

// keep buffers a response until the earlier ones arrive. It drops a copy of a
// buffered one.
func (c *completer) keep(now clock.Instant, next ib.PSN, p *Packet) {
	if c.early.has(p.BTH.PSN) {
		c.ep.drop(counters.DropDuplicate, p)
		return
	}
	if c.port != 0 && c.port != p.Data.SrcPort {
		c.ep.drop(counters.DropDoubt, p)
		return
	}
	if c.early == nil {
		c.early = &keeper{pool: c.ep.env.Keep}
	}
	if c.early.keep(now, next, p) {
		c.ep.env.Counters.EarlyKept++
		c.flight.Landed(p.BTH.PSN.Next()) // responses are sent in order, so earlier ones have arrived or are lost
	} else {
		c.ep.env.Counters.EarlyRefused++
	}
}

// keepAck holds the acknowledgement with the highest PSN until the response to
// w arrives.
func (c *completer) keepAck(w *begunWR, p *Packet) {
	if c.acked == nil {
		if c.acked = c.ep.env.Keep.getOne(0); c.acked == nil {
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
	c.early.clear()
	if c.acked != nil {
		c.ep.env.Keep.putOne(c.acked)
		c.acked = nil
	}
}

// oldResponse handles a response to an already acknowledged request: a
// duplicate (E23). The one just before the oldest may bring new credits. A peer
// that refuses a READ in the middle may name the PSN of the request, as Linux
// does.
func (c *completer) oldResponse(now clock.Instant, p *Packet) {
	s := p.AETH.Syndrome
	switch {
	case p.Info.Kind != roce.KindAck:
	case p.BTH.PSN != c.flight.Una().Prev() && c.answersProbe(now, p):
		return
	case s.IsACK() && p.BTH.PSN == c.flight.Una().Prev():
		if c.refusesMSN(p, c.req.done) {
			return
		}
		c.req.credits(p.AETH.MSN, s.Value())
		c.challenge.heard(now)
		c.end.Wake()
		return
	case s.IsNAK() && s != roce.NAKSequence && c.answersRead(p.BTH.PSN):
		if n := (refusal{c.flight.Una(), s}); !c.refusesMSN(p, c.req.done) && !(c.ends(n) && c.challenge.refuses(now, n)) {
			c.receiveNAK(now, s)
		}
		return
	}
	c.ep.drop(counters.DropDuplicate, p)
}

// answersProbe reports whether p, an acknowledgement of nothing that is in flight, answers a
// probe. Linux rxe acknowledges a probe with the PSN of the last request that it executed and
// that was no READ, or with 0xffffff if there was none.
func (c *completer) answersProbe(now clock.Instant, p *Packet) bool {
	if p.Info.Kind != roce.KindAck || !p.AETH.Syndrome.IsACK() || c.challenge.idle() {
		return false
	}
	if !c.refusesMSN(p, c.req.done) {
		c.challenge.heard(now)
	}
	return true
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

// receiveAck handles ACKNOWLEDGE: an acknowledgement or a NAK.
func (c *completer) receiveAck(now clock.Instant, p *Packet) {
	s := p.AETH.Syndrome
	switch {
	case s.IsACK():
		v := c.covered(p.BTH.PSN)
		if c.refusesMSN(p, v.msn) {
			return
		}
		c.req.credits(p.AETH.MSN, s.Value())
		if !c.complete(now, v) {
			c.missing(now, p)
		}
		c.challenge.heard(now)
	case s.IsRNR(), s.IsNAK() && s <= c.ep.maxNAK:
		n := refusal{p.BTH.PSN, s}
		v := c.before(n.psn)
		if c.refusesMSN(p, v.msn) || c.ends(n) && c.challenge.refuses(now, n) {
			return
		}
		if !c.complete(now, v) {
			c.missing(now, p)
			return
		}
		c.receiveNAK(now, s)
	default:
		c.ep.drop(counters.DropResponse, p) // reserved syndrome
	}
}

// ends reports whether a NAK would end its work request with an error.
func (c *completer) ends(n refusal) bool {
	if n.fatal() {
		return true
	}
	rnr := n.syndrome.IsRNR()
	return c.retry.Exhausted(rnr, n.psn != c.flight.Una()) && (rnr || !c.ep.armed())
}

// believe acts on a NAK after a challenge: everything before its PSN is acknowledged.
func (c *completer) believe(now clock.Instant, n refusal) {
	if v := c.before(n.psn); !c.complete(now, v) {
		c.impliedNAK(now)
		return
	}
	c.receiveNAK(now, n.syndrome)
	c.req.checkDrained()
}

// receiveNAK handles a NAK for the oldest packet (E8, E10, E12, E14–E16).
func (c *completer) receiveNAK(now clock.Instant, s roce.Syndrome) {
	if c.ep.State() == ib.ERR {
		return
	}
	if s.IsRNR() {
		c.ep.owner.suspend(now, s.Value())
		return
	}
	switch s {
	case roce.NAKSequence:
		c.ep.env.Counters.RcvdSeqErr++
		c.req.lostPackets(now, "sequence NAK", 1, flow.Told)
	case roce.NAKInvalidRequest:
		c.end.fail(now, ib.WCRemInvReqErr, "NAK invalid request")
	case roce.NAKRemoteAccess:
		c.end.fail(now, ib.WCRemAccessErr, "NAK remote access error")
	case roce.NAKRemoteOperational:
		c.end.fail(now, ib.WCRemOpErr, "NAK remote operational error")
	case roce.NAKInvalidRD:
		c.end.fail(now, ib.WCRemInvRDReqErr, "NAK invalid RD request")
	}
}

// coverage is the range that a response acknowledges: the work requests up to index end,
// and the packets up to PSN to, which may be in the middle of the next one.
type coverage struct {
	end uint32
	to  ib.PSN
	msn uint32 // number of the last fully acknowledged message
	all bool   // false: a READ or atomic without its response stops it
}

// covered returns what a response to psn acknowledges: everything up to psn, short of the
// first READ or atomic that still waits for data (E22).
func (c *completer) covered(psn ib.PSN) coverage {
	r := c.req
	v := coverage{r.queue.Cons(), c.flight.Una(), r.done, true}
	for ; v.end != r.began; v.end++ {
		w := r.queue.at(v.end)
		if psn.Diff(w.first) < 0 {
			break
		}
		if w.kind == begunAnswered {
			v.all = false
			break
		}
		if psn.Diff(w.last) < 0 {
			v.to = psn.Next()
			break
		}
		v.to, v.msn = w.last.Next(), w.ssn
	}
	return v
}

// before returns what a NAK for psn acknowledges: everything before it (E8).
func (c *completer) before(psn ib.PSN) coverage {
	if r := c.req; psn == c.flight.Una() {
		return coverage{r.queue.Cons(), psn, r.done, true}
	}
	return c.covered(psn.Prev())
}

// complete completes the covered work requests. It reports whether nothing stopped the
// acknowledgement (v.all).
func (c *completer) complete(now clock.Instant, v coverage) (all bool) {
	r := c.req
	r.advance(now, v.to)
	for i := r.queue.Cons(); i != v.end && c.ep.State() != ib.ERR; i++ { // ERR: a completion found its CQ full
		r.completeNext(now, ib.WCSuccess)
	}
	r.queue.Release()
	return v.all
}

// refusesMSN drops a response whose message sequence number (MSN) does not fit, once the
// peer's MSNs have fitted so far. The response acknowledges the messages up to number least.
func (c *completer) refusesMSN(p *Packet, least uint32) bool {
	if !c.ep.distrusts(claimNAK) || !c.msn.refuses(c.ep.env.now, p.AETH.MSN, least, c.req.ssn) {
		return false
	}
	c.ep.drop(counters.DropMSN, p)
	return true
}

// doubt is an implausible response, after which the requester has repeated the
// request.
type doubt struct {
	raised   bool
	psn, una ib.PSN        // PSN of the response, and the oldest unacknowledged PSN at that time
	until    clock.Instant // repetitions before this instant do not count: the peer had no time to answer
}

// doubts reports whether to drop a response that would fail its request, and to repeat the request
// instead, because a stranger may have sent the response. If the same response comes again after
// the time of a challenge, and the peer acknowledged nothing in between, it is believed.
func (c *completer) doubts(now clock.Instant, p *Packet) bool {
	d := &c.doubt
	same := d.raised && d.psn == p.BTH.PSN && d.una == c.flight.Una()
	if !c.challenge.on(claimNAK) || same && now >= d.until {
		return false
	}
	c.ep.drop(counters.DropDoubt, p)
	if !same {
		*d = doubt{true, p.BTH.PSN, c.flight.Una(), now.Add(c.challenge.time())}
		c.req.repeat(now, "answer in doubt")
	}
	return true
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
	c.early.from(c.port)
}

// store scatters data at byte offset off of the response to the oldest work
// request.
func (c *completer) store(data []byte, off uint32) bool {
	r := c.req
	return len(data) == 0 ||
		c.ep.env.Mem.Scatter(data, r.qp.pd, r.queue.sges(r.queue.Cons()), uint64(off)) == memory.FaultNone
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
	c.req.lostPackets(now, "implied NAK", c.hole(), flow.Hole)
}

// buffers reports whether responses after a gap are buffered.
func (c *completer) buffers() bool { return c.early != nil && c.early.holds() }

// hole returns the number of missing responses before the first buffered one, or
// else to the end of the oldest request.
func (c *completer) hole() uint32 {
	w, next := c.wanted()
	if w == nil {
		return 1
	}
	if first, ok := c.early.first(next); ok {
		return first.Distance(c.flight.Una())
	}
	_, last := c.req.chunk.at(w, next)
	return last.Next().Distance(c.flight.Una())
}
