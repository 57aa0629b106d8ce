package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/roce"
)

// execute does what an RC request asks for. Everything but what happens to
// memory in this very moment has been checked.
func (q *QP) execute(p *Packet) fault {
	r := &q.resp
	switch p.Info.Kind {
	case roce.KindSend:
		return q.executeSend(p)
	case roce.KindWrite:
		if p.Info.Flags&roce.FlagStart != 0 {
			q.env.Counters.RxWriteRequests++
			r.msg = messageWrite
		}
		return q.executeWrite(p)
	case roce.KindReadRequest:
		q.env.Counters.RxReadRequests++
		first := p.BTH.PSN
		last := first.Add(q.requestPSNs(p) - 1)
		r.res.add(resource{
			kind: p.Info.Kind, first: first, last: last, next: first, end: last, pending: true,
			va: p.RETH.VA, rkey: p.RETH.RKey, length: p.RETH.Length, stop: p.RETH.Length, msn: r.msn.Next(), mtu: q.mtu,
		})
		return fault{}
	default:
		return q.executeAtomic(p)
	}
}

// executeSend places the payload in the receive work request, and invalidates
// what the last packet of a SEND with invalidate names.
func (q *QP) executeSend(p *Packet) fault {
	r := &q.resp
	r.msg = messageSend
	if !q.place(p.Payload) {
		return remoteOperational("receive scatter element cannot be written")
	}
	if p.Info.Flags&roce.FlagInv == 0 {
		return fault{}
	}
	if err := q.env.Mem.Invalidate(q.pd, p.InvRKey); err != memory.FaultNone {
		return remoteAccess("SEND with invalidate: " + err.String())
	}
	return fault{}
}

// place scatters payload into the receive in hand at the present offset.
func (q *QP) place(payload []byte) bool {
	r := &q.resp
	if len(payload) > 0 && q.env.Mem.Scatter(payload, q.pd, r.recv.sges, uint64(r.received)) != memory.FaultNone {
		return false
	}
	r.received += uint32(len(payload))
	return true
}

// executeWrite copies the payload to its place. The key is looked up again
// for every packet: the region may have gone since the first.
func (q *QP) executeWrite(p *Packet) fault {
	r := &q.resp
	if len(p.Payload) == 0 {
		return fault{}
	}
	dst, err := q.env.Mem.Remote(q.pd, r.write.rkey, r.write.va+uint64(r.received), uint64(len(p.Payload)), ib.AccessRemoteWrite)
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	copy(dst, p.Payload)
	r.received += uint32(len(p.Payload))
	return fault{}
}

// executeAtomic executes an atomic once and keeps its result for duplicates
// (E9, E11).
func (q *QP) executeAtomic(p *Packet) fault {
	r := &q.resp
	q.env.Counters.RxAtomicRequests++
	a := &p.AtomicETH
	mem, err := q.env.Mem.Remote(q.pd, a.RKey, a.VA, 8, ib.AccessRemoteAtomic)
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	e := resource{
		kind: p.Info.Kind, first: p.BTH.PSN, last: p.BTH.PSN, next: p.BTH.PSN, end: p.BTH.PSN,
		pending: true, msn: r.msn.Next(),
	}
	if p.Info.Kind == roce.KindCompareSwap {
		e.value = memory.CompareSwap(mem, a.Compare, a.SwapAdd)
	} else {
		e.value = memory.FetchAdd(mem, a.SwapAdd)
	}
	r.res.add(e)
	return fault{}
}

// completeRequest ends the message that p was the last packet of: a SEND and
// a WRITE with immediate complete a receive work request.
func (q *QP) completeRequest(now clock.Instant, p *Packet) {
	if !q.resp.recv.taken {
		return
	}
	wc := ib.WC{
		Opcode: ib.WCRecv, ByteLen: q.resp.received, SrcQP: q.attr.DestQPN,
		PKeyIndex: q.attr.PKeyIndex, SL: q.attr.AV.SL,
	}
	if p.Info.Kind == roce.KindWrite {
		wc.Opcode = ib.WCRecvRDMAWithImm
	}
	if p.Info.Flags&roce.FlagImm != 0 {
		wc.Flags |= ib.WCWithImm
		wc.ImmData = p.Imm
	}
	if p.Info.Flags&roce.FlagInv != 0 {
		wc.Flags |= ib.WCWithInv
		wc.InvRKey = p.InvRKey
	}
	q.completeRecv(now, &wc, p.BTH.SE)
}
