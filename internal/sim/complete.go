package sim

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/trace"
)

// completed is called when the adapter completes a work request of the end,
// whether or not its CQ has room for the entry.
func (e *end) completed(r *trace.Record) {
	n := e.node
	switch {
	case r.Status == ib.WCSuccess:
	case r.Status == ib.WCWRFlushErr:
		n.tally.flushed++
	case isRecv(r.WRID):
		n.tally.respErr++
	default:
		n.tally.reqErr++
	}
	e.w.Completions++
	e.w.Mark(statusMarks[r.Status])
	wc := ib.WC{WRID: r.WRID, Status: r.Status, QPN: e.num, ByteLen: uint32(r.Len)}
	e.solicited = false
	q := e.sendQ
	if isRecv(r.WRID) {
		q = e.recvQueueOf(r.WRID)
		e.completedRecv(&wc)
	} else {
		e.completedSend(&wc)
	}
	if q != nil {
		q.push(e, wc)
	}
}

// push puts a completion into the model of a CQ, or counts it as lost when the
// CQ is full (E18, E27).
func (c *queue) push(e *end, wc ib.WC) {
	if !c.failed && len(c.want) < int(c.cq.Cap()) {
		c.want = append(c.want, pushed{wc, e.w.Now})
		c.alarm.got(e.solicited || wc.Status != ib.WCSuccess)
		return
	}
	c.failed, e.fullCQ = true, true
	e.node.watch = append(e.node.watch, e)
	e.node.tally.lostCQE++
	e.node.blame(c)
}

// blame marks the queue pairs of a failed CQ, which go to ERR.
func (n *node) blame(c *queue) {
	for _, e := range n.ends {
		if slices.Contains(e.queues(), c) || e.domain != nil && e.domain.uses(c) {
			e.mayFail = true
		}
	}
}

// completedSend checks the completion of a send work request.
func (e *end) completedSend(wc *ib.WC) {
	e.delays.news("a completion", e.w.Now)
	for {
		if len(e.sq) == 0 {
			e.w.Fail("completion", "adapter %d qp %v: %v of wr_id %d, which is not outstanding: it completed before, or was reset away", e.node.Index, e.num, wc.Status, wc.WRID)
			return
		}
		o := e.sq[0]
		e.sq = e.sq[1:]
		if o.id == wc.WRID {
			e.finish(o, wc)
			return
		}
		if o.signaled {
			e.w.Fail("order", "adapter %d qp %v: wr_id %d completes before wr_id %d", e.node.Index, e.num, wc.WRID, o.id)
			return
		}
		e.succeeded(o) // unsignalled: the completion of a later one shows it
	}
}

// finish checks a completion and releases the request's resources.
func (e *end) finish(o *op, wc *ib.WC) {
	wc.Opcode, wc.ByteLen = opcodeOf(o.code), uint32(o.length)
	if wc.Status == ib.WCSuccess {
		if e.drained() {
			e.w.Fail("state", "adapter %d qp %v: wr_id %d succeeds after the send queue has drained", e.node.Index, e.num, o.id)
		}
		if !o.signaled {
			e.w.Fail("completion", "adapter %d qp %v: an entry for wr_id %d, which succeeded and was not signalled", e.node.Index, e.num, o.id)
		}
		e.succeeded(o)
		e.wire.progress()
		return
	}
	e.ended(o, wc.Status)
	e.explain(o, wc.Status)
	if o.isLocal() {
		e.space.remote.binding.refused(o)
	}
	if wc.Status != ib.WCWRFlushErr {
		if e.failed {
			e.w.Fail("status", "adapter %d qp %v: a second error, %v, after the one that stopped the queue", e.node.Index, e.num, wc.Status)
		}
		e.failed, e.mayFail = true, true
		e.node.watch = append(e.node.watch, e)
	}
	o.drop()
}

// succeeded checks the effect of a successful request.
func (e *end) succeeded(o *op) {
	w := e.w
	if e.failed {
		w.Fail("order", "adapter %d qp %v: wr_id %d succeeds after an earlier one failed", e.node.Index, e.num, o.id)
	}
	if o.bad != flawless && !e.wire.deceived { // a forged NAK acknowledges the requests before it
		w.Fail("status", "adapter %d qp %v: wr_id %d succeeds and cannot (%v)", e.node.Index, e.num, o.id, o.bad)
	}
	if e.reliable && !e.wire.deceived {
		e.verify(o)
	}
	o.doubtful = e.wire.deceived && !o.delivered
	if o.isLocal() {
		e.space.remote.binding.executed(o)
	}
	e.ended(o, ib.WCSuccess)
	o.drop()
}

// verify checks the effect of a reliable request at the peer, which must be
// there when the request completes.
func (e *end) verify(o *op) {
	w := e.w
	if o.consumes() && !o.delivered {
		w.Fail("message", "adapter %d qp %v: wr_id %d succeeds and its receive at the peer is not complete", e.node.Index, e.num, o.id)
		return
	}
	switch {
	case o.word != nil:
		e.verifyAtomic(o)
	case o.code == ib.WRFlush:
		e.verifyFlush(o)
	case o.code == ib.WRRDMARead:
		l := o.destination.bytes()
		if o.space.era == o.spaceEra && !o.target.explains(l[:o.length]) {
			w.Fail("memory", "adapter %d qp %v: READ wr_id %d returned data that was not in the peer's memory", e.node.Index, e.num, o.id)
		}
		o.destination.received(e, l[:o.length])
	case o.writes() && o.space.era == o.spaceEra && !o.target.wrote(o):
		w.Fail("memory", "adapter %d qp %v: WRITE wr_id %d is complete and its data is not in the peer's memory", e.node.Index, e.num, o.id)
	}
}

func (e *end) verifyAtomic(o *op) {
	have := uint64(0)
	if o.destination != nil {
		have = binary.NativeEndian.Uint64(o.destination.bytes())
	}
	if o.space.era == o.spaceEra {
		found, known := o.word.executed(o)
		if !known || found != have && o.destination != nil {
			e.w.Fail("atomic", "adapter %d qp %v: wr_id %d found %#x, want %#x: an atomic was executed twice, not at all, or out of turn", e.node.Index, e.num, o.id, have, found)
		}
		binary.NativeEndian.PutUint64(o.space.remote.want[o.word.off:], o.word.value)
	}
	if o.destination != nil {
		o.destination.received(e, o.destination.bytes()[:8])
	}
}

// verifyFlush checks that the WRITEs before a FLUSH are in the peer's memory or, for
// persistence, on its storage.
func (e *end) verifyFlush(o *op) {
	if o.space.era != o.spaceEra {
		return
	}
	f, t := &o.wr.Flush, o.target
	n := t.size
	if f.Level == ib.FlushRange {
		n = int(f.Length)
	}
	if !t.explains(t.bytes()[:n]) {
		e.w.Fail("memory", "adapter %d qp %v: FLUSH wr_id %d is complete and earlier data is not in the peer's memory", e.node.Index, e.num, o.id)
	}
	if f.Type&ib.FlushPersistent != 0 && !t.explains(o.space.stored[t.off:t.off+n]) {
		e.w.Fail("memory", "adapter %d qp %v: FLUSH wr_id %d is complete and earlier data is not on the peer's storage", e.node.Index, e.num, o.id)
	}
}

// received checks that a slot holds data, followed by its previous contents.
func (l *slot) received(e *end, data []byte) {
	copy(l.model(), data)
	if !bytes.Equal(l.model(), l.bytes()) {
		e.w.Fail("memory", "adapter %d qp %v: more was written than the %d bytes of the message", e.node.Index, e.num, len(data))
	}
}

// completedRecv checks the completion of a receive.
func (e *end) completedRecv(wc *ib.WC) {
	v := e.takeReceive(wc)
	if v == nil {
		return
	}
	if wc.Status == ib.WCSuccess {
		e.delivered(v, wc)
	} else {
		e.explainRecv(v, wc.Status)
	}
	v.drop()
}

// takeReceive finds the receive that completed: the oldest of the end's own
// queue, or any posted one of a shared queue.
func (e *end) takeReceive(wc *ib.WC) *receive {
	if e.srq != nil || e.domain != nil {
		v := e.takeShared(wc.WRID)
		if v == nil {
			e.w.Fail("completion", "adapter %d qp %v: %v of receive %d, which is not in the shared queue", e.node.Index, e.num, wc.Status, wc.WRID)
		}
		return v
	}
	if len(e.rq) == 0 || e.rq[0].id != wc.WRID {
		e.w.Fail("completion", "adapter %d qp %v: %v of receive %d, which is not the oldest outstanding", e.node.Index, e.num, wc.Status, wc.WRID)
		return nil
	}
	v := e.rq[0]
	e.rq = e.rq[1:]
	return v
}

// delivered checks a message that has arrived.
func (e *end) delivered(v *receive, wc *ib.WC) {
	if e.reliable {
		e.deliveredReliable(v, wc)
		return
	}
	e.deliveredUnreliable(v, wc)
}

// deliveredReliable checks that messages arrive whole, in order, each once.
func (e *end) deliveredReliable(v *receive, wc *ib.WC) {
	if len(e.inbox) == 0 {
		e.w.Fail("message", "adapter %d qp %v: a message arrived and the peer has sent none, or it arrived before", e.node.Index, e.num)
		return
	}
	for len(e.inbox) > 1 && e.inbox[0].doubtful && !e.inbox[0].arrives(v, wc) {
		e.inbox = e.inbox[1:]
	}
	o := e.inbox[0]
	e.inbox = e.inbox[1:]
	o.delivered, e.solicited = true, o.solicits()
	if e.domain != nil {
		e.checkQueue(o, v)
	}
	if int(wc.ByteLen) != o.length {
		e.w.Fail("message", "adapter %d qp %v: a message of %d bytes, want that of %d", e.node.Index, e.num, wc.ByteLen, o.length)
		return
	}
	wc.Opcode, wc.SrcQP = ib.WCRecv, e.peer.num
	if o.code == ib.WRRDMAWriteWithImm {
		wc.Opcode = ib.WCRecvRDMAWithImm
	}
	switch o.code {
	case ib.WRSend:
	case ib.WRSendWithInv:
		wc.Flags, wc.InvRKey = ib.WCWithInv, o.wr.InvRKey
		e.space.remote.binding.invalidated(o)
	default:
		wc.Flags, wc.ImmData = ib.WCWithImm, o.imm
	}
	if o.bad != flawless || v.bad && o.length > 0 && !o.writes() {
		e.w.Fail("message", "adapter %d qp %v: receive %d completes and cannot", e.node.Index, e.num, v.id)
		return
	}
	if v.slot.owner == v.id {
		data := o.data
		if o.writes() {
			data = nil
		}
		v.slot.received(e, data)
	}
	if o.writes() && o.space.era == o.spaceEra && !o.target.holds(o) {
		e.w.Fail("memory", "adapter %d qp %v: a WRITE with immediate completes its receive before its data is there", e.node.Index, e.num)
	}
}

// arrives reports whether a receive may have the message of a request.
func (o *op) arrives(v *receive, wc *ib.WC) bool {
	return int(wc.ByteLen) == o.length && (o.writes() || bytes.HasPrefix(v.slot.bytes(), o.data))
}

// holds reports whether the data of a WRITE is in place, except for bytes that
// later WRITEs changed.
func (l *slot) holds(o *op) bool {
	b := l.bytes()
	for i, v := range o.data {
		if b[i] != v && !l.mayHold(i, b[i]) {
			return false
		}
	}
	return true
}

// deliveredUnreliable: messages of UC and UD may be lost, reordered and, if the
// network duplicates a packet, arrive twice; but each must be a complete
// message that was sent.
func (e *end) deliveredUnreliable(v *receive, wc *ib.WC) {
	head := 0
	if e.pair == nil {
		head = grhRoom
		wc.Flags = ib.WCGRH
	} else {
		wc.SrcQP = e.peer.num
	}
	m, ok := e.w.text.lookup(v.slot.bytes()[head:], int(wc.ByteLen)-head)
	switch {
	case ok && (m.at != e.node || m.to != e.num):
		e.w.Fail("message", "adapter %d qp %v: a message that was sent to adapter %d qp %v", e.node.Index, e.num, m.at.Index, m.to)
		return
	case !ok && e.pair == nil:
		e.w.Fail("message", "adapter %d qp %v: what arrived is no message that was sent", e.node.Index, e.num)
		return
	case !ok:
		// A WRITE with immediate, which does not change the receive's memory
		// (except for the start of a dropped message). The opcode of the
		// completion must show it.
		wc.Opcode, wc.Flags, wc.VendorErr = ib.WCRecvRDMAWithImm, ib.WCWithImm, anyImm
		return
	}
	wc.Opcode = ib.WCRecv
	if e.pair == nil {
		wc.SrcQP, wc.SL = m.from, ib.SLIPv4
		if v.slot.bytes()[0]>>4 == 6 { // the GRH begins like an IPv6 header, or, of IPv4, with zeros
			wc.SL = ib.SLIPv6
		}
	}
	e.solicited = m.solicited
	if m.code == ib.WRSendWithImm {
		wc.Flags, wc.ImmData = wc.Flags|ib.WCWithImm, m.imm
	}
}

// anyImm, in an expected completion, means that the immediate is unknown.
const anyImm = 1

func opcodeOf(c ib.WROpcode) ib.WCOpcode {
	switch c {
	case ib.WRRDMAWrite, ib.WRRDMAWriteWithImm:
		return ib.WCRDMAWrite
	case ib.WRRDMARead:
		return ib.WCRDMARead
	case ib.WRAtomicFetchAdd:
		return ib.WCFetchAdd
	case ib.WRAtomicCmpAndSwp:
		return ib.WCCompSwap
	case ib.WRAtomicWrite:
		return ib.WCAtomicWrite
	case ib.WRFlush:
		return ib.WCFlush
	case ib.WRBindMW:
		return ib.WCBindMW
	case ib.WRLocalInv:
		return ib.WCLocalInv
	default:
		return ib.WCSend
	}
}
