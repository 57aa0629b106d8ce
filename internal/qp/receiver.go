package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// receives is where the receive work requests of a queue pair come from: a
// queue of its own, or one that it shares.
type receives interface {
	// take moves the oldest work request into the slot and reports whether
	// there was one.
	take(*recvSlot) bool
	// complete releases the work request taken last, after its completion.
	complete()
	// credits returns the number of posted receives, to report as credits;
	// false if they are not the queue pair's own.
	credits() (n uint32, ok bool)
}

// recvQueue is a queue of receive work requests, of one queue pair or shared.
type recvQueue struct {
	ring.Ring[ring.RecvWQE]
	mu     lock.Mutex[lock.RecvQueue] // guards the producing side
	maxSGE uint32
}

func (r *recvQueue) init(a ring.Allocator, wr, sge uint32) error {
	r.maxSGE = sge
	return r.Init(a, wr, ring.SGERoom(sge))
}

// exists reports whether the queue pair has this queue.
func (r *recvQueue) exists() bool { return r.Header() != nil }

// take fills the slot with the oldest work request, whose elements stay in
// the queue.
func (r *recvQueue) take(s *recvSlot) bool {
	n, ok := r.Len()
	if n == 0 {
		return false
	}
	i := r.Cons()
	e := *r.At(i) // read once: a foreign writer may change the entry at any time
	*s = recvSlot{wrid: e.WRID, length: e.Length, taken: true, malformed: !ok || e.NumSGE > r.maxSGE}
	if s.malformed {
		s.length = 0
	} else {
		s.sges = r.SGEs(i, e.NumSGE)
	}
	return true
}

func (r *recvQueue) complete() {
	r.Retire()
	r.Release()
}

// recvSlot is the receive work request that a message is being placed in.
type recvSlot struct {
	wrid      uint64
	sges      []ib.SGE // in the queue, or from a shared queue a copy
	length    uint32   // total bytes of the elements
	taken     bool
	malformed bool // the entry is malformed: no data can be placed
	spare     bool // taken for a request that was then dropped as doubtful; the next request uses it
}

// message is the kind of message that a receiver is in the middle of.
type message uint8

const (
	messageNone message = iota
	messageSend
	messageWrite
)

// receiver is the receiving side that all services have: the current receive,
// the current message, and its destination.
type receiver struct {
	ep   *endpoint
	qp   *QP      // owner of the receives, and of their completions
	from receives // the QP's own queue, or its SRQ
	cq   *CQ
	eec  ib.EECN // of an EE context, its number
	slot recvSlot

	src      ib.QPN // queue pair that sends the requests: the connection's; for RD, of the last request
	epsn     ib.PSN // next expected
	peer     place  // UC, since software asked for REARM
	msg      message
	dropping bool   // UC: the rest of the message is dropped
	received uint32 // bytes of the message placed so far
	write    writeTarget
	back     heldBack
	commEst  bool // COMM_EST was raised since the QP entered RTR
	// blocksSelf keeps the queue pair's own messages to a multicast group from it.
	blocksSelf bool
	onFirst    func(now clock.Instant)
}

// writeTarget is where the RDMA WRITE in progress goes.
type writeTarget struct {
	va     uint64
	rkey   ib.RKey
	length uint32 // of the whole message
}

// hold makes room for a copy of a receive's elements, for a shared queue.
func (r *receiver) hold(maxSGE uint32) { r.slot.sges = make([]ib.SGE, 0, maxSGE) }

// reset resets the receiver for a new connection.
func (r *receiver) reset() {
	r.slot = recvSlot{sges: r.slot.sges[:0]}
	r.epsn, r.msg, r.dropping, r.received, r.write = ib.PSN{}, messageNone, false, 0, writeTarget{}
	r.commEst, r.onFirst, r.peer = false, nil, place{}
}

// via returns where the requests come from.
func (r *receiver) via() memory.Via { return r.qp.via }

// allows reports whether the queue pair gives the peer a right.
func (r *receiver) allows(right ib.Access) bool {
	ep := &r.qp.ep
	return ep.attr.AccessFlags&right == right
}

// rnrTimer returns the code of the time that the peer is to wait for a receive.
func (r *receiver) rnrTimer() uint8 {
	ep := &r.qp.ep
	return ep.attr.MinRNRTimer
}

// failQP ends the queue pair.
func (r *receiver) failQP(now clock.Instant, cause string) { r.qp.fail(now, cause) }

// took reports whether a receive has left the queue, but is not complete.
func (r *receiver) took() bool { return r.slot.taken }

// began reports whether a message is being placed in a receive.
func (r *receiver) began() bool { return r.slot.taken && !r.slot.spare }

// undo goes back to a state before a request that was dropped as doubtful.
func (r *receiver) undo(msg message, received uint32) {
	r.msg, r.received, r.slot.spare = msg, received, msg == messageNone
}

// putOff keeps the receive taken for a request, which will be repeated.
func (r *receiver) putOff() { r.slot.spare = true }

// established raises COMM_EST at the first request in RTR (Q9), and calls
// onFirst. It reports false if that ended the QP, which then must not execute
// the request.
func (r *receiver) established(now clock.Instant) bool {
	if f := r.onFirst; f != nil {
		r.onFirst = nil
		if f(now); !r.ep.behaviour().takesRequests() {
			return false
		}
	}
	if !r.commEst && r.ep.State() == ib.RTR {
		r.commEst = true
		r.ep.raise(ib.EventCommEst)
	}
	return true
}

// takeFor takes the receive work request that a packet consumes. It reports
// false if one is needed and none is posted.
func (r *receiver) takeFor(p *Packet) bool {
	if !p.TakesReceive() {
		return true
	}
	r.slot.spare = false
	return r.slot.taken || r.from.take(&r.slot)
}

// checkLength checks the payload against the path MTU, the place in the message
// and the size of the receive or the region (E15). The first packet of a
// message starts it.
func (r *receiver) checkLength(p *Packet) fault {
	switch {
	case !fitsMTU(p, r.ep.mtu):
		return r.ep.env.badLength("packet length does not fit the path MTU", "%d bytes of payload, and the path MTU of this side is %d", len(p.Payload), r.ep.mtu)
	case p.Info.Headers&roce.HasRETH != 0 && p.RETH.Length > MaxMessage:
		return invalidRequest(ib.WCRemInvReqErr, "message longer than 2^31 bytes")
	}
	if check := operationOf(p.Info.Kind).check; check != nil {
		return check(r, p)
	}
	return fault{}
}

// checkSendLength checks that the receive work request has room for a packet of a SEND.
func (r *receiver) checkSendLength(p *Packet) fault {
	if p.Info.Flags&roce.FlagStart != 0 {
		r.received = 0
	}
	if uint64(r.received)+uint64(len(p.Payload)) > uint64(r.slot.length) && !r.slot.malformed {
		return r.ep.env.badLength("SEND longer than the receive work request", "at least %d bytes, and the receive has %d",
			r.received+uint32(len(p.Payload)), r.slot.length)
	}
	return fault{}
}

// checkWriteLength checks that a WRITE ends with the packet that completes its length.
func (r *receiver) checkWriteLength(p *Packet) fault {
	n, end := uint32(len(p.Payload)), p.Info.Flags&roce.FlagEnd != 0
	if p.Info.Flags&roce.FlagStart != 0 {
		r.received = 0
		r.write = writeTarget{va: p.RETH.VA, rkey: p.RETH.RKey, length: p.RETH.Length}
	}
	rest := r.write.length - r.received
	if n > rest || end != (n == rest) {
		return invalidRequest(ib.WCRemInvReqErr, "WRITE length is not what arrived")
	}
	return fault{}
}

// fitsMTU applies the payload rule of the opcode.
func fitsMTU(p *Packet, mtu int) bool {
	n := len(p.Payload)
	switch p.Info.Payload {
	case roce.PayloadMTU:
		return n == mtu && p.BTH.PadCnt == 0
	case roce.PayloadUpToMTU:
		return n <= mtu
	case roce.PayloadLast:
		return n >= 1 && n <= mtu
	case roce.Payload8:
		return n == 8
	case roce.PayloadNone:
		return true // the payload is ignored
	default:
		return false
	}
}

// checkKey checks the rkey of a request that names one for the whole range: of
// the first packet of a WRITE, of a READ and of an atomic; a length of zero
// needs none (E13, E14, E17). checkFlush has checked that of a FLUSH.
func (r *receiver) checkKey(p *Packet) fault {
	op := operationOf(p.Info.Kind)
	right := op.right
	va, rkey, n := p.RETH.VA, p.RETH.RKey, p.RETH.Length
	if p.Info.Headers&roce.HasAtomicETH != 0 {
		va, rkey, n = p.AtomicETH.VA, p.AtomicETH.RKey, op.demand.size
	}
	switch {
	case right == 0, p.Info.Headers&(roce.HasRETH|roce.HasAtomicETH) == 0:
		return fault{}
	case !op.demand.met(va, n):
		return invalidRequest(ib.WCRemInvReqErr, op.demand.breach)
	}
	if _, err := r.ep.env.Mem.Remote(r.qp.via, rkey, va, uint64(n), right); err != memory.FaultNone {
		return r.ep.env.badKey("rkey", err)
	}
	return fault{}
}

// executeSend places the payload in the receive work request, and invalidates
// the key in the last packet of a SEND with invalidate.
func (r *receiver) executeSend(p *Packet) fault {
	r.msg = messageSend
	if !r.holdsBack(p) && !r.placeAt(p.Payload, r.received) {
		return remoteOperational("receive scatter element cannot be written")
	}
	r.received += uint32(len(p.Payload))
	if r.back.held && p.Info.Flags&roce.FlagEnd != 0 && !r.placeAt(r.rest()) {
		return remoteOperational("receive scatter element cannot be written")
	}
	if p.Info.Flags&roce.FlagInv == 0 {
		return fault{}
	}
	if err := r.ep.env.Mem.Invalidate(r.qp.via, p.InvRKey); err != memory.FaultNone {
		return r.ep.env.badKey("SEND with invalidate", err)
	}
	return fault{}
}

// placeAt scatters b into the current receive at byte off.
func (r *receiver) placeAt(b []byte, off uint32) bool {
	if r.slot.malformed {
		return false
	}
	if len(b) == 0 {
		return true
	}
	f := r.ep.env.Mem.Scatter(b, r.qp.via.PD, r.slot.sges, uint64(off))
	return f == memory.FaultNone || denied(r.ep, "receive", f)
}

// executeWrite copies the payload to its address.
func (r *receiver) executeWrite(p *Packet) fault {
	r.msg = messageWrite
	if !r.holdsBack(p) {
		if f := r.writeAt(p.Payload, r.received); f != (fault{}) {
			return f
		}
	}
	r.received += uint32(len(p.Payload))
	if r.back.held && p.Info.Flags&roce.FlagEnd != 0 {
		return r.writeAt(r.rest())
	}
	return fault{}
}

// holdsBack reports whether the payload of a packet is written at the end of the message.
func (r *receiver) holdsBack(p *Packet) bool { return r.ep.env.Nasty != nil && r.holdBack(p) }

// writeAt copies b to byte off of the current RDMA WRITE. It looks up the key for every packet,
// because the region may have been deregistered meanwhile.
func (r *receiver) writeAt(b []byte, off uint32) fault {
	if len(b) == 0 {
		return fault{}
	}
	dst, err := r.ep.env.Mem.Remote(r.qp.via, r.write.rkey, r.write.va+uint64(off), uint64(len(b)), ib.AccessRemoteWrite)
	if err != memory.FaultNone {
		return r.ep.env.badKey("rkey", err)
	}
	if err := r.ep.env.Mem.Put(dst, b); err != memory.FaultNone {
		return r.ep.env.badKey("rkey", err)
	}
	return fault{}
}

// completeMessage ends the message of which p is the last packet. A SEND and a
// WRITE with immediate complete a receive work request.
func (r *receiver) completeMessage(now clock.Instant, p *Packet) {
	r.msg = messageNone
	r.ep.counts().RcvdMessages++
	op := operationOf(p.Info.Kind)
	if !r.slot.taken || op.receive.at&(p.Info.Flags|roce.FlagStart) == 0 {
		return
	}
	attr := &r.ep.attr
	wc := ib.WC{
		Opcode: op.receive.opcode, ByteLen: r.received, SrcQP: r.src, EEC: r.eec, PKeyIndex: attr.PKeyIndex, SL: attr.AV.SL,
	}
	if p.Info.Flags&roce.FlagImm != 0 {
		wc.Flags |= ib.WCWithImm
		wc.ImmData = p.Imm
	}
	if p.Info.Flags&roce.FlagInv != 0 {
		wc.Flags |= ib.WCWithInv
		wc.InvRKey = p.InvRKey
	}
	r.complete(now, &wc, p.BTH.SE)
}

// complete completes the current receive. The caller sets the fields of wc that
// depend on the service; the others are set here.
func (r *receiver) complete(now clock.Instant, wc *ib.WC, solicited bool) {
	wc.WRID, wc.QPN = r.slot.wrid, r.qp.Num()
	r.slot.taken = false
	r.from.complete()
	if wc.Status == ib.WCSuccess {
		r.ep.env.Counters.RDMARecvs++
	} else {
		wc.Opcode = ib.WCRecv // in the queue's memory, for a checker; polls hide it (Q23)
	}
	r.ep.countStatus(wc.Status, &r.ep.env.Counters.RespCQEError)
	r.qp.push(now, r.cq, wc, solicited)
}

// fail ends the current receive with an error, and the QP.
func (r *receiver) fail(now clock.Instant) {
	r.complete(now, &ib.WC{Status: ib.WCLocProtErr}, false)
	r.qp.fail(now, "receive scatter element cannot be written")
}

// flush completes every receive work request of the QP's own queue with a
// flush error, in order; one taken from an SRQ is completed too.
func (r *receiver) flush(now clock.Instant) {
	if r.slot.taken {
		r.complete(now, &ib.WC{Status: ib.WCWRFlushErr}, false)
	}
	q := &r.qp.rq
	if !q.exists() {
		return
	}
	for n, _ := q.Len(); n > 0 && q.take(&r.slot); n-- {
		r.complete(now, &ib.WC{Status: ib.WCWRFlushErr}, false)
	}
}
