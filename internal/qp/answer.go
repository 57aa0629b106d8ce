package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// responseQuantum is the maximum number of READ responses per turn.
const responseQuantum = 64

// sendResponses appends READ and atomic responses in PSN order and then the
// acknowledgement. It reports whether it could send more at once.
func (r *responder) sendResponses(now clock.Instant, b *fabric.Batch) (more bool) {
	for n := 0; ; n++ {
		e := r.kept.front()
		if e == nil {
			break
		}
		if n == responseQuantum {
			return true
		}
		answer := &operationOf(e.kind).answer
		if r.ep.pace.Rate() != 0 && answer.returns == returnsData && !r.ep.mayPace(&r.ep.pace, now) {
			return !r.acknowledgeBefore(b, e)
		}
		switch done, err := answer.respond(r, b, e); {
		case err != memory.FaultNone:
			r.endRead(e, err)
		case done == batchFull:
			return true
		case done == responseLate:
			return !r.acknowledgeBefore(b, e)
		}
	}
	r.alive = reply{} // the answers have acknowledged the duplicate
	if r.reply.kind != replyNone && !r.sendAck(b, &r.reply) {
		return true
	}
	if r.dying.syndrome != 0 && r.reply.kind == replyNone {
		r.die(now)
	}
	return false
}

// syndrome returns the AETH syndrome of a positive answer.
func (r *responder) syndrome() roce.Syndrome {
	n, ok := r.in.from.credits()
	if !ok || !r.ep.env.Settings.Credits {
		return roce.ACKUnlimited
	}
	if r.in.took() {
		n--
	}
	return roce.ACKCredits(ib.CreditCode(n))
}

func (r *recvQueue) credits() (uint32, bool) {
	n, _ := r.Len()
	return n, true
}

// header starts a response to a queue pair.
func (r *responder) header(op roce.Opcode, psn ib.PSN, to ib.QPN) *roce.Packet {
	p := r.ep.header(inService(op, r.ep.service), psn)
	p.BTH.DestQP = to
	return p
}

// sendAck appends a pending ACKNOWLEDGE.
func (r *responder) sendAck(b *fabric.Batch, pending *reply) bool {
	p := r.header(roce.RCAcknowledge, pending.psn, r.in.src)
	p.AETH = roce.AETH{Syndrome: pending.syndrome, MSN: r.msn}
	if pending.kind == replyACK {
		p.AETH.Syndrome = r.syndrome()
	}
	if r.ep.appendBare(b) == nil {
		return false
	}
	*pending = reply{}
	return true
}

// acknowledgeBefore appends the pending acknowledgement, if any, of requests before e, whose answer
// has to wait. It reports false when the batch has no room.
func (r *responder) acknowledgeBefore(b *fabric.Batch, e *resource) bool {
	switch {
	case r.reply.kind == replyACK && r.reply.psn.Diff(e.first) < 0:
		r.alive = reply{}
		return r.sendAck(b, &r.reply)
	case r.alive.kind == replyACK:
		return r.sendAck(b, &r.alive)
	}
	return true
}

// sendAtomicAck appends the answer to an atomic.
func (r *responder) sendAtomicAck(b *fabric.Batch, e *resource) (progress, memory.Fault) {
	if f := e.perform(r.ep.env.Mem); f != memory.FaultNone {
		return responseLate, f
	}
	p := r.header(roce.RCAtomicAcknowledge, e.first, e.src)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	p.AtomicAck = e.value
	if r.ep.appendBare(b) == nil {
		return batchFull, memory.FaultNone
	}
	e.pending = false
	return responseSent, memory.FaultNone
}

// sendReadResponse appends the next response packet of a READ. The key is
// checked again for each: if the region is gone, the peer gets a NAK (E14).
func (r *responder) sendReadResponse(b *fabric.Batch, e *resource) (progress, memory.Fault) {
	off := e.next.Distance(e.first) * uint32(e.mtu)
	n := min(e.stop-min(off, e.stop), uint32(e.mtu))
	var src []byte
	if n > 0 {
		var err memory.Fault
		src, err = r.ep.env.Mem.Remote(e.via(), e.rkey, e.va+uint64(off), uint64(n), ib.AccessRemoteRead)
		if err != memory.FaultNone {
			return batchFull, err
		}
	}
	// A replay from the middle of a READ continues with MIDDLE or LAST, as on
	// Linux; a partial replay still ends with LAST.
	op := readResponse(e.next == e.first, e.next == e.end)
	p := r.header(op, e.next, e.src)
	p.AETH = roce.AETH{Syndrome: r.syndrome(), MSN: e.msn}
	seg, payload, id := r.ep.append(b, &r.ep.path.Path, n)
	if seg == nil {
		return batchFull, memory.FaultNone
	}
	if err := r.ep.env.Mem.Touch(func() { copy(payload, src) }); err != memory.FaultNone {
		b.Unappend()
		return batchFull, err
	}
	r.ep.finish(seg, id)
	r.ep.counts().SentBytes += uint64(n)
	r.ep.pace.Sent(r.ep.env.now, ipLength(&r.ep.path, seg))
	e.pending = e.next != e.end
	e.next = e.next.Next()
	return responseSent, memory.FaultNone
}

// endRead ends a READ whose memory is no longer accessible.
func (r *responder) endRead(e *resource, err memory.Fault) {
	e.pending = false
	if e.replay {
		r.ep.owner.regionGone(e.next)
		return
	}
	r.ep.owner.refuse(e.next, r.ep.env.badKey("rkey", err))
	r.kept.clear()
}

// regionGone has nothing to do: a duplicate is never refused.
func (q *QP) regionGone(ib.PSN) {}

// readResponse returns the opcode of a READ response by its place.
func readResponse(start, end bool) roce.Opcode {
	switch {
	case start && end:
		return roce.RCRDMAReadResponseOnly
	case start:
		return roce.RCRDMAReadResponseFirst
	case end:
		return roce.RCRDMAReadResponseLast
	default:
		return roce.RCRDMAReadResponseMiddle
	}
}

// resource is a request with responses of its own that the responder has accepted: its
// remaining responses, and the data to repeat them (E9, E11).
type resource struct {
	kind    roce.Kind
	pending bool    // the responses from next to end have still to be sent
	replay  bool    // these responses have been sent before
	todo    bool    // an atomic, ATOMIC WRITE or FLUSH that is not executed yet
	failed  bool    // the memory of a FLUSH could not be written back
	what    flushed // of a FLUSH
	mtu     uint16  // unit of its PSNs; the QP's MTU may have changed since
	first   ib.PSN  // of the original request
	last    ib.PSN
	next    ib.PSN // next response to send
	end     ib.PSN // last response asked for
	msn     ib.MSN
	rkey    ib.RKey
	pd      memory.PD // of the queue pair, or of the SRQ of XRC, that the request named
	src     ib.QPN    // requesting queue pair
	length  uint32
	stop    uint32 // bytes that the responses up to end carry
	va      uint64
	value   uint64 // original value of an atomic; of what is still to do, its operand
	compare uint64 // the other operand of a COMPARE&SWAP
	job     uint64 // of a FLUSH: the number of its WriteBack; 0: it has none yet
	qp      *QP    // of a READ, and of what is still to do: whose memory it is about; nil: it is gone
}

// via returns how the request names memory. e.qp is not nil.
func (e *resource) via() memory.Via { return memory.Via{PD: e.pd, QP: e.qp.via.QP} }

// resources holds the most recent READs and atomics, up to the responder
// resources of the QP, plus further unanswered ones. It is a FIFO in a circular
// array, so entries never move; entry 0 is the oldest.
type resources struct {
	ring  []resource
	head  int // index of entry 0
	n     int
	out   int // entries before this one have nothing to send
	todo  int // no entry from this one on has todo set
	reads int // no entry from this one on is a READ
}

// at returns entry i.
func (s *resources) at(i int) *resource {
	i += s.head
	if i >= len(s.ring) {
		i -= len(s.ring)
	}
	return &s.ring[i]
}

// ready makes room for one more entry and reports success. depth is the number
// of entries to retain; a peer with more outstanding requests is tolerated up
// to limit.
func (s *resources) ready(depth, limit uint32) bool {
	if depth == 0 {
		return false
	}
	s.front() // updates out: repeated answers may be complete, or dropped
	s.forget(min(s.n-int(depth)+1, s.out))
	most := int(max(depth, limit))
	// A new request shows that the peer has the answers to requests older than
	// its depth. A pending replay of such an answer is due to a late duplicate,
	// so it is dropped.
	for s.n >= most && (!s.at(0).pending || s.at(0).replay) {
		s.forget(1)
	}
	return s.n < most
}

// forget drops the n oldest entries.
func (s *resources) forget(n int) {
	if n > 0 {
		s.head = (s.head + n) % len(s.ring)
		s.n -= n
		s.out, s.todo, s.reads = max(s.out-n, 0), max(s.todo-n, 0), max(s.reads-n, 0)
	}
}

// grow doubles the array. Most queue pairs never get a READ or an atomic, and the
// entries for the largest depth are 9 KB, so a new queue pair has none.
func (s *resources) grow() {
	ring := make([]resource, max(4, 2*len(s.ring)))
	for i := range s.n {
		ring[i] = *s.at(i)
	}
	s.ring, s.head = ring, 0
}

// add appends an entry for the request p with n responses and MSN msn, and
// returns it; the caller sets the other fields.
func (s *resources) add(p *Packet, msn ib.MSN, n uint32) *resource {
	if s.n == len(s.ring) {
		s.grow()
	}
	s.n++
	e, last := s.at(s.n-1), p.BTH.PSN.Add(n-1)
	*e = resource{} // then field by field: a literal would be built in a temporary and copied
	e.kind, e.pending, e.msn = p.Info.Kind, true, msn
	e.first, e.next, e.last, e.end = p.BTH.PSN, p.BTH.PSN, last, last
	if e.kind == roce.KindReadRequest {
		s.reads = s.n
	}
	return e
}

// front returns the entry to answer next.
func (s *resources) front() *resource {
	for ; s.out < s.n; s.out++ {
		if e := s.at(s.out); e.pending {
			return e
		}
	}
	return nil
}

// find returns the newest entry whose PSNs include p: an old entry may have the
// same PSN.
func (s *resources) find(p ib.PSN) (*resource, int) {
	for i := s.n - 1; i >= 0; i-- {
		if e := s.at(i); p.InWindow(e.first, e.last.Distance(e.first)+1) {
			return e, i
		}
	}
	return nil, 0
}

// again makes an entry repeat its responses from p to end, with the current
// MSN, as an acknowledgement would carry.
func (s *resources) again(i int, p, end ib.PSN, msn ib.MSN) {
	e := s.at(i)
	if e.todo { // its first answer is still to come
		return
	}
	e.replay = e.replay || !e.pending || p.Diff(e.next) < 0
	e.pending, e.next, e.end, e.msn = true, p, end, msn
	s.out = min(s.out, i)
}

// clear forgets everything.
func (s *resources) clear() { *s = resources{ring: s.ring} }

// duplicate answers a request behind the expected PSN (E9): SEND and WRITE are
// acknowledged again, a READ is read again, an atomic answered from its saved
// result. A duplicate that has no entry or does not match is dropped, never
// answered with a NAK.
func (r *responder) duplicate(now clock.Instant, p *Packet) {
	r.ep.env.Counters.DuplicateRequest++
	asks := false
	if p.Data.SrcPort == r.port { // otherwise it may be a stranger's
		n := operationOf(p.Info.Kind).requestPSNs(p, r.ep.mtu)
		asks = r.resend.duplicate(p, n, r.in.epsn.Prev(), r.reorder.holds())
	}
	if op := operationOf(p.Info.Kind); op.duplicate != nil {
		op.duplicate(r, p)
	} else {
		r.ep.drop(counters.DropDuplicate, p)
	}
	if asks && r.reorder.has(r.in.epsn) {
		r.catchUp(now, true)
	}
}

// acknowledgeAgain acknowledges a duplicate that has no response of its own. The peer may be
// probing, so this acknowledgement is sent even while the answer to a later request has to wait.
func (r *responder) acknowledgeAgain(p *Packet) {
	psn := r.acknowledges(p)
	r.reply.ack(psn)
	if e := r.kept.front(); e != nil && psn.Diff(e.first) < 0 {
		r.alive = reply{kind: replyACK, psn: psn}
	}
}

// duplicateAtomic answers an atomic, an ATOMIC WRITE or a FLUSH again with its saved result.
func (r *responder) duplicateAtomic(p *Packet) {
	e, i := r.kept.find(p.BTH.PSN)
	if e == nil || e.kind != p.Info.Kind {
		r.ep.owner.cannotRepeat(p)
		return
	}
	r.kept.again(i, e.first, e.last, r.msn)
}

// cannotRepeat drops a duplicate whose answer is not kept.
func (q *QP) cannotRepeat(p *Packet) { q.ep.drop(counters.DropDuplicate, p) }

// lastExecuted returns the PSN to acknowledge for a duplicate at p: the last
// one executed, but not past a READ or atomic whose answer the peer may lack.
// Entries from before p do not matter.
func (r *responder) lastExecuted(p ib.PSN) ib.PSN {
	epsn := r.in.epsn
	for i := range r.kept.n {
		e := r.kept.at(i)
		if e.first.InWindow(p.Next(), epsn.Distance(p)-1) {
			return e.first.Prev()
		}
	}
	return epsn.Prev()
}

// acknowledges returns the PSN with which the duplicate p is acknowledged.
func (r *responder) acknowledges(p *Packet) ib.PSN {
	psn := r.lastExecuted(p.BTH.PSN)
	if r.ep.env.Reorder != nil && psn == r.in.epsn.Prev() {
		return r.resend.limit(p, psn)
	}
	return psn
}

// duplicateRead answers a READ again from where the peer asks, if it lies
// inside the original in PSN, address and length and has the same rkey.
func (r *responder) duplicateRead(p *Packet) {
	e, i := r.kept.find(p.BTH.PSN)
	if e == nil || e.kind != roce.KindReadRequest || e.rkey != p.RETH.RKey {
		r.ep.owner.cannotRepeat(p)
		return
	}
	if e.qp == nil {
		r.reply.nak(roce.NAKInvalidRD, p.BTH.PSN)
		return
	}
	done := uint64(p.BTH.PSN.Distance(e.first)) * uint64(e.mtu)
	if p.RETH.VA != e.va+done || uint64(p.RETH.Length) > uint64(e.length)-min(done, uint64(e.length)) {
		r.ep.drop(counters.DropDuplicate, p)
		return
	}
	end, stop := p.BTH.PSN.Add(packetCount(p.RETH.Length, int(e.mtu))-1), uint32(done)+p.RETH.Length
	if e.pending && e.stop > stop { // fewer packets, or fewer bytes of the last
		end, stop = e.end, e.stop
	}
	if e.pending && p.BTH.PSN.Diff(e.next) >= 0 {
		e.end, e.stop = end, stop
		return // its original response is still to be sent
	}
	e.stop = stop
	r.kept.again(i, p.BTH.PSN, end, r.msn)
}
