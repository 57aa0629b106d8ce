package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/flow"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/trace"
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
	reorder   *reorderBuffer // reorder buffer for responses after a gap
	acked     *heldPacket    // last acknowledgement received after a missing response; nil if none
	after     ib.PSN         // with acked: the last PSN of the missing response
	port      uint16         // UDP source port of the last response with data; 0: none
	msn       msnPolicy
	doubt     doubt
	losses    losses
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
	if c.ep.env.Nasty != nil && c.loses(now, p) {
		return false
	}
	c.process(now, p)
	return true
}

// process handles a response to a request in flight, and buffered ones that follow it.
func (c *completer) process(now clock.Instant, p *Packet) {
	c.take(now, p)
	c.catchUp(now)
	c.req.judge(now)
	c.req.reapFailed(now)
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
			c.reorder.clear()
			break
		}
		k := c.reorder.take(now, next)
		if k == nil {
			break
		}
		taken = true
		c.take(now, &k.Packet)
		c.ep.env.Reorder.put(k)
	}
	if k := c.acked; k != nil && (taken || c.flight.Una().Diff(c.after) > 0) && c.ep.behaviour().takesResponses() {
		c.acked = nil
		if k.BTH.PSN.Diff(c.flight.Una()) >= 0 {
			c.take(now, &k.Packet)
		}
		c.ep.env.Reorder.putOne(k)
	}
	if taken && c.buffers() {
		c.impliedNAK(now)
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

// heard notes that the peer has acknowledged something, on the known path. An answer that
// comes before the second probe may be from before the claim, and refutes it only if it
// acknowledges the request that the NAK names. An answer to a probe does not refute an RNR NAK or
// a sequence NAK: a live peer sends those too.
func (c *challenge) heard(now clock.Instant) {
	c.unheard = false
	if c.claims != 0 {
		c.weigh(now)
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
		c.ep.counts().SeqErrors++
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
		if psn.Diff(w.first) < 0 && !w.follows(psn) {
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

// advance moves una forward. This is progress, so it reloads the retry counters
// and the timer.
func (r *requester) advance(now clock.Instant, to ib.PSN) {
	if to.Diff(r.flight.Una()) <= 0 {
		return
	}
	if m := r.flight.Acknowledged(now, to); m != 0 {
		r.goTo(m)
	}
	if r.retry.Progress(now, r.flight.Outstanding()) {
		r.flight.Await(now)
	}
}

// judge evaluates the answer just received, if a repair waits for it.
func (r *requester) judge(now clock.Instant) {
	if r.flight.Waiting() && r.ep.behaviour().takesResponses() {
		m, cause := r.flight.Judge(now, r.oldest())
		r.follow(m, trace.Repair, cause)
	}
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

// buffers reports whether responses after a gap are buffered.
func (c *completer) buffers() bool { return c.reorder != nil && c.reorder.holds() }

// credits takes the credit count of an AETH.
func (r *requester) credits(msn ib.MSN, code uint8) { r.credit.update(msn, code) }

// update takes the count of an AETH.
func (c *creditState) update(msn ib.MSN, code uint8) {
	n, ok := ib.Credits(code)
	l := uint32(msn) + n
	if ok && (c.unlimited || seqDiff(l, c.limit) > 0) {
		c.limit = l
	}
	c.unlimited = !ok
}

// reapFailed completes a work request with a local error when it has become
// the oldest.
func (r *requester) reapFailed(now clock.Instant) {
	if r.failed == ib.WCSuccess || r.next != r.queue.Cons() {
		return
	}
	cause := "local error: " + r.failed.String()
	if f := r.queue.oldest().fault; f != memory.FaultNone {
		cause += ": " + f.String()
	}
	r.end.fail(now, r.failed, cause)
}

// complete ends the oldest send work request: an entry in the CQ if it is
// signalled or failed, and its slot is free again.
func (r *requester) complete(now clock.Instant, status ib.WCStatus) {
	r.completeNext(now, status)
	r.queue.Release()
}

// completeNext is complete for one of several. The slots of requests that
// complete without a CQ entry become free when the caller calls Release.
func (r *requester) completeNext(now clock.Instant, status ib.WCStatus) {
	i := r.queue.Cons()
	e, w := r.queue.At(i), r.queue.at(i)
	signalled := r.queue.signalled(i)
	wc := ib.WC{WRID: e.WRID, Status: status}
	if status == ib.WCSuccess {
		wc.Opcode, wc.ByteLen = w.request().wc, w.length
		if w.request().kind == roce.KindSend {
			r.ep.env.Counters.RDMASends++
		}
	}
	if status != ib.WCSuccess && status != ib.WCWRFlushErr && w.fault == memory.FaultInjected {
		wc.VendorErr = ib.VendorErrFault
	}
	switch {
	case i == r.began: // never sent: a flush
		r.began++
		w.ssn = r.done
	case w.kind == begunAnswered && r.rdBegun > 0:
		r.rdBegun--
	}
	if int32(r.next-i) <= 0 {
		r.next = i + 1
	}
	if status == ib.WCSuccess {
		r.ep.completed(now, w)
	}
	r.done = w.ssn
	r.queue.Retire()
	if status == ib.WCSuccess && !signalled {
		return
	}
	r.queue.Release() // before the program knows
	wc.QPN = r.qp.Num()
	r.ep.countStatus(status, &r.ep.env.Counters.ReqCQEError)
	r.qp.push(now, r.queue.cq, &wc, false)
}

// push adds an entry to a CQ. A CQ that is full fails with CQ_ERR and so do its
// QPs (E18, E27), this one first; lost entries are counted.
func (q *QP) push(now clock.Instant, cq *CQ, wc *ib.WC, solicited bool) {
	env := q.ep.env
	if env.Trace != nil && (wc.Status != ib.WCSuccess || !env.Out.Rare) {
		q.ep.record(trace.Record{Kind: trace.Completion, WRID: wc.WRID, Status: wc.Status, Len: int(wc.ByteLen)})
	}
	at := cq.timeOf(now)
	if env.Nasty == nil || !cq.postpone(now, env, lateEntry{q, *wc, at, solicited}) {
		cq.add(now, at, q, wc, solicited)
	}
}

// add is QP.push for an entry that is not late any more, of an operation that ended at an instant.
func (c *CQ) add(now, at clock.Instant, q *QP, wc *ib.WC, solicited bool) {
	r := c.push(max(now, at), at, q.ep.env, wc, solicited)
	if r == pushed {
		return
	}
	q.ep.env.Counters.CQEOverflow++
	if r == overflowed {
		q.ep.env.Raise(Event{Type: ib.EventCQErr, CQ: c})
	}
	q.fatal(now, causeCQFull)
	if r == overflowed {
		q.ep.env.CQFailed(now, c)
	}
}

const causeCQFull = "completion queue full"

// settled ends the draining of SQD when every begun work request is
// complete (E6, Q12).
func (q *QP) settled(clock.Instant) {
	if q.sqd.draining && !q.rd.begun() {
		q.End.checkDrained()
	}
}

// pushResult is the outcome of adding a completion.
type pushResult uint8

const (
	pushed pushResult = iota
	overflowed
	refused // the CQ had failed before
)

// push adds an entry of an operation that ended at an instant. solicited marks a receive whose
// packet had SE set.
func (c *CQ) push(now, at clock.Instant, e *Env, wc *ib.WC, solicited bool) pushResult {
	if c.Failed() {
		return refused
	}
	counts := &c.track.Counts
	if !c.Push(at, wc) {
		c.Fail()
		counts.Overflows++
		return overflowed
	}
	counts.Produced++
	if n := uint64(c.Pending()); n > counts.HighWater {
		counts.HighWater = n
	}
	solicited = solicited || wc.Status != ib.WCSuccess
	switch {
	case !c.Armed(solicited):
	case c.limits.active():
		c.count(now, e, 1)
	default:
		c.fire(solicited)
	}
	return pushed
}

// timeOf returns the time for an entry of a call at an instant; without times, the instant.
func (c *CQ) timeOf(now clock.Instant) clock.Instant {
	if c.time == nil {
		return now
	}
	return c.time()
}

// fire raises an event if the queue is still armed for such an entry.
func (c *CQ) fire(solicited bool) {
	if !c.Fire(solicited) {
		return
	}
	c.track.Counts.Events++
	if c.onEvent != nil {
		c.onEvent()
	}
}
