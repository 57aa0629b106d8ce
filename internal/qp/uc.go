package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// receiveUC executes one UC packet. Nothing is answered: a message with a
// packet missing, too long, or without a receive is dropped whole, and its
// receive serves the next one (IBA 9.8.2).
func (q *QP) receiveUC(now clock.Instant, p *Packet) {
	r := &q.resp
	start, end := p.Info.Flags&roce.FlagStart != 0, p.Info.Flags&roce.FlagEnd != 0
	if p.BTH.PSN != r.epsn || start && r.msg != messageNone {
		r.msg = messageNone // the message in progress lost its end
		r.dropping = true
	}
	r.epsn = p.BTH.PSN.Next()
	if start {
		r.dropping = false
		r.received = 0
	}
	if r.dropping {
		q.drop(counters.DropMessage, p)
		return
	}
	if d, ok := q.checkUC(p, start, end); !ok {
		r.dropping, r.msg = true, messageNone
		q.drop(d, p)
		return
	}
	if !q.established(now) {
		q.drop(counters.DropState, p)
		return
	}
	if p.Info.Kind == roce.KindSend {
		r.msg = messageSend
		if !q.place(p.Payload) {
			q.completeRecv(now, &ib.WC{Status: ib.WCLocProtErr}, false)
			q.fatal(now, "receive scatter element cannot be written")
			return
		}
	} else {
		r.msg = messageWrite
		if f := q.executeWrite(p); f.syndrome != 0 {
			r.dropping, r.msg = true, messageNone
			q.drop(counters.DropAccess, p)
			return
		}
	}
	if end {
		r.msg = messageNone
		if p.Info.Kind == roce.KindSend || p.Info.Flags&roce.FlagImm != 0 {
			q.completeRequest(now, p)
		}
	}
}

// checkUC checks opcode sequence, rights, receive, length and key of a UC
// packet. It reports why the message must be dropped.
func (q *QP) checkUC(p *Packet, start, end bool) (counters.Drop, bool) {
	r := &q.resp
	inHand := messageSend
	if p.Info.Kind == roce.KindWrite {
		inHand = messageWrite
	}
	if !start && r.msg != inHand {
		return counters.DropSequence, false
	}
	if p.Info.Kind == roce.KindWrite {
		if q.attr.AccessFlags&ib.AccessRemoteWrite == 0 {
			return counters.DropAccess, false
		}
		if start {
			q.env.Counters.RxWriteRequests++
		}
	}
	if !q.takeResources(p) {
		q.env.Counters.OutOfBuffer++
		return counters.DropNoWQE, false
	}
	if f := q.checkLength(p); f.syndrome != 0 {
		return counters.DropLength, false
	}
	if f := q.checkKey(p); f.syndrome != 0 {
		return counters.DropAccess, false
	}
	return 0, true
}

// grhBytes is the room before the payload of a UD receive: the global routing
// header, or what stands for it on RoCEv2.
const grhBytes = 40

// receiveUD executes one UD packet: the 40 bytes of GRH area and the payload
// go to the next receive. A message without a receive, or longer than it, is
// dropped; the receive serves the next one.
func (q *QP) receiveUD(now clock.Instant, p *Packet) {
	r := &q.resp
	switch {
	case len(p.Payload) > q.env.Limits.ActiveMTU.Bytes():
		q.drop(counters.DropLength, p)
		return
	case !r.recv.taken && !q.takeRecv():
		q.env.Counters.OutOfBuffer++
		q.drop(counters.DropNoWQE, p)
		return
	case grhBytes+len(p.Payload) > int(r.recv.wqe.Length):
		q.drop(counters.DropLength, p)
		return
	}
	var grh [grhBytes]byte
	putGRH(&grh, p)
	if !q.placeAt(grh[:], 0) || !q.placeAt(p.Payload, grhBytes) {
		q.completeRecv(now, &ib.WC{Status: ib.WCLocProtErr}, false)
		q.fatal(now, "receive scatter element cannot be written")
		return
	}
	wc := ib.WC{
		Opcode: ib.WCRecv, Flags: ib.WCGRH, ByteLen: uint32(grhBytes + len(p.Payload)),
		SrcQP: p.DETH.SrcQP, PKeyIndex: q.attr.PKeyIndex,
	}
	if p.Info.Flags&roce.FlagImm != 0 {
		wc.Flags |= ib.WCWithImm
		wc.ImmData = p.Imm
	}
	q.completeRecv(now, &wc, p.BTH.SE)
}

// placeAt scatters b into the receive in hand at byte off.
func (q *QP) placeAt(b []byte, off uint64) bool {
	return len(b) == 0 || q.env.Mem.Scatter(b, q.pd, q.resp.recv.sges, off) == memory.FaultNone
}
