package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

const flagResponse = roce.FlagResponse

// serviceOf returns the opcode class of a QP type.
func serviceOf(t ib.QPType) roce.Service {
	switch t {
	case ib.RC:
		return roce.ServiceRC
	case ib.UC:
		return roce.ServiceUC
	case ib.RD:
		return roce.ServiceRD
	default:
		return roce.ServiceUD
	}
}

// messageOps are the opcodes of one operation by place in the message.
type messageOps struct{ first, middle, last, only roce.Opcode }

// rcOps is indexed by send operation; ucOf turns an opcode into UC's.
var rcOps = [...]messageOps{
	ib.WRRDMAWrite: {
		roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLast, roce.RCRDMAWriteOnly,
	},
	ib.WRRDMAWriteWithImm: {
		roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLastWithImm, roce.RCRDMAWriteOnlyWithImm,
	},
	ib.WRSend: {
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLast, roce.RCSendOnly,
	},
	ib.WRSendWithImm: {
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithImm, roce.RCSendOnlyWithImm,
	},
	ib.WRSendWithInv: {
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithInvalidate, roce.RCSendOnlyWithInvalidate,
	},
}

func ucOf(o roce.Opcode) roce.Opcode { return o | roce.Opcode(roce.ServiceUC)<<5 }

// opcodeAt returns the opcode of the packet that begins at the start of a
// message or not, and ends it or not.
func (q *QP) opcodeAt(op ib.WROpcode, start, end bool) roce.Opcode {
	ops := &rcOps[op]
	o := ops.middle
	switch {
	case start && end:
		o = ops.only
	case start:
		o = ops.first
	case end:
		o = ops.last
	}
	if q.typ == ib.UC {
		o = ucOf(o)
	}
	return o
}

// header starts the scratch packet with the BTH that every packet of this QP
// begins with.
func (q *QP) header(op roce.Opcode, psn ib.PSN) *roce.Packet {
	p := &q.env.out
	p.BTH = roce.BTH{
		Opcode: op, MigReq: q.env.Settings.MigReq, PKey: q.pkey, DestQP: q.attr.DestQPN, PSN: psn,
	}
	return p
}

// append builds the scratch packet at the end of the batch: headers, room for
// n bytes of payload, pad. It returns the whole segment, nil when the batch
// is full, and its identification; finish completes it.
func (q *QP) append(b *fabric.Batch, path *fabric.Path, n uint32) (seg, payload []byte, id int) {
	p := &q.env.out
	seg, id = b.Append(path, roce.Size(p.BTH.Opcode, int(n)))
	if seg == nil {
		return nil, nil, 0
	}
	p.BTH.PadCnt = uint8(roce.Pad(int(n)))
	h := p.PutHeaders(seg)
	payload = seg[h : h+int(n)]
	clear(seg[h+int(n) : len(seg)-4])
	return seg, payload, id
}

// finish seals a segment of the QP's own path.
func (q *QP) finish(seg []byte, id int) {
	q.seal(seg, q.prefixes.get(&q.path, len(seg)).WithID(uint16(id)))
}

// seal writes the ICRC and counts the packet.
func (q *QP) seal(seg []byte, pre roce.Prefix) {
	roce.Seal(seg, pre)
	q.env.Counters.SentPkts++
	if q.env.Trace != nil {
		r := trace.Record{Kind: trace.PacketOut, PSN: q.env.out.BTH.PSN, Len: len(seg)}
		copy(r.Header[:], seg)
		q.record(r)
	}
}

// tracePacket records an arriving packet.
func (q *QP) tracePacket(p *Packet) {
	if q.env.Trace == nil {
		return
	}
	r := trace.Record{Kind: trace.PacketIn, PSN: p.BTH.PSN, Len: p.Size}
	p.PutHeaders(r.Header[:])
	q.record(r)
}

// prefixCache keeps the ICRC prefixes of the packet sizes last sent on the
// QP's path: a message has at most three, and its acknowledgement one.
type prefixCache struct {
	size [4]int
	pre  [4]roce.Prefix
	turn uint8
}

func (c *prefixCache) get(p *fabric.Path, size int) roce.Prefix {
	for i, s := range c.size {
		if s == size {
			return c.pre[i]
		}
	}
	i := c.turn & 3
	c.turn++
	c.size[i] = size
	c.pre[i] = roce.NewPrefix(p.Src, p.Dst, p.SrcPort, fabric.RoCEPort, size)
	return c.pre[i]
}

// sendData appends the next packet of a SEND or WRITE. It returns 0 when the
// batch is full.
func (q *QP) sendData(b *fabric.Batch, w *sendWQE) (uint32, ib.WCStatus) {
	r := &q.req
	off := r.psn.Distance(w.FirstPSN) * uint32(q.mtu)
	rest := w.Length - off
	n := min(rest, uint32(q.mtu))
	end := rest == n
	p := q.header(q.opcodeAt(w.Opcode, off == 0, end), r.psn)
	p.BTH.SE = end && w.Flags&ib.SendSolicited != 0 && needsCredit(w.Opcode)
	p.BTH.AckReq = q.typ == ib.RC && (end || q.ackDue(n))
	p.RETH = roce.RETH{VA: w.RemoteAddr, RKey: w.RKey, Length: w.Length}
	p.Imm, p.InvRKey = w.Imm, ib.RKey(w.Imm)
	seg, payload, id := q.append(b, &q.path, n)
	if seg == nil {
		return 0, ib.WCSuccess
	}
	if !q.gather(payload, r.next, off) {
		b.Unappend()
		return 0, ib.WCLocProtErr
	}
	q.charge(packetCost(n))
	q.finish(seg, id)
	r.sinceAck++
	if p.BTH.AckReq {
		r.sinceAck = 0
	}
	return 1, ib.WCSuccess
}

// ackDue asks for an acknowledgement in the middle of a message, often enough
// to keep the window moving.
func (q *QP) ackDue(n uint32) bool {
	cost := packetCost(n)
	return q.flow.inFlight+2*int(cost) > q.flow.limit || q.req.sinceAck+1 >= min(ackRun, q.flow.ackEvery(cost))
}

// gather copies payload of the work request at index i, from byte off of its
// message.
func (q *QP) gather(dst []byte, i, off uint32) bool {
	w := q.sq.At(i)
	if w.Flags&ib.SendInline != 0 {
		copy(dst, q.sq.inlineData(i)[off:])
		return true
	}
	if len(dst) == 0 {
		return true
	}
	return q.env.Mem.Gather(dst, q.pd, q.sq.sges(i), uint64(off)) == memory.FaultNone
}

// sendRead appends a READ request for what is missing of w's present chunk.
// A READ longer than a chunk is asked for in several requests, so that its
// responses fit the receive buffer; each has its own PSNs, as several READs
// would.
func (q *QP) sendRead(b *fabric.Batch, w *sendWQE) uint32 {
	r := &q.req
	off := r.psn.Distance(w.FirstPSN)
	end := q.chunkEnd(w, r.psn)
	n := end.Distance(r.psn) + 1
	done := off * uint32(q.mtu)
	p := q.header(roce.RCRDMAReadRequest, r.psn)
	p.BTH.AckReq = true
	p.RETH = roce.RETH{
		VA: w.RemoteAddr + uint64(done), RKey: w.RKey,
		Length: uint32(min(uint64(w.Length-done), uint64(n)*uint64(q.mtu))),
	}
	seg, _, id := q.append(b, &q.path, 0)
	if seg == nil {
		return 0
	}
	q.charge(n * packetCost(uint32(q.mtu)))
	q.finish(seg, id)
	r.sinceAck = 0
	r.rdOut++
	return n
}

// chunkEnd returns the last PSN of the chunk of a READ that p is in.
func (q *QP) chunkEnd(w *sendWQE, p ib.PSN) ib.PSN {
	size := q.readChunk()
	i := p.Distance(w.FirstPSN) / size
	last := w.LastPSN.Distance(w.FirstPSN)
	return w.FirstPSN.Add(min(last, (i+1)*size-1))
}

// chunks returns how many requests a work request becomes.
func (q *QP) chunks(w *sendWQE) uint32 {
	if w.Opcode != ib.WRRDMARead {
		return 1
	}
	return w.LastPSN.Distance(w.FirstPSN)/q.readChunk() + 1
}

// sendAtomic appends a COMPARE&SWAP or FETCH&ADD.
func (q *QP) sendAtomic(b *fabric.Batch, w *sendWQE) uint32 {
	op, swapAdd, compare := roce.RCCompareSwap, w.Swap, w.CompareAdd
	if w.Opcode == ib.WRAtomicFetchAdd {
		op, swapAdd, compare = roce.RCFetchAdd, w.CompareAdd, 0
	}
	p := q.header(op, q.req.psn)
	p.BTH.AckReq = true
	p.AtomicETH = roce.AtomicETH{VA: w.RemoteAddr, RKey: w.RKey, SwapAdd: swapAdd, Compare: compare}
	seg, _, id := q.append(b, &q.path, 0)
	if seg == nil {
		return 0
	}
	q.charge(packetCost(0))
	q.finish(seg, id)
	q.req.sinceAck = 0
	q.req.rdOut++
	return 1
}
