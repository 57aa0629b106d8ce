package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// operations is the one table of operations, by the kind of their packets. What has no row
// here is not provided: a responder refuses it. The functions of a row report what they find,
// and their callers act on it: a function that fails a queue pair would lead back to the
// table, which Go does not compile.
var operations = [1 << 8]operation{
	roce.KindSend: {
		services: onAll | setEEC, psns: psnPerPayload, carries: true, message: messageSend,
		receive: receiveRule{at: roce.FlagStart, opcode: ib.WCRecv},
		answer:  answer{kind: roce.KindAck},
		encode:  encodeSend, check: (*receiver).checkSendLength,
		execute: executeSend, duplicate: (*responder).acknowledgeAgain,
	},
	roce.KindWrite: {
		services: onStreams | setEEC, right: ib.AccessRemoteWrite, psns: psnPerPayload, carries: true, message: messageWrite,
		receive: receiveRule{at: roce.FlagImm, opcode: ib.WCRecvRDMAWithImm},
		answer:  answer{kind: roce.KindAck},
		counter: func(c *counters.Set) *uint64 { return &c.RxWriteRequests },
		encode:  encodeWrite, check: (*receiver).checkWriteLength,
		execute: executeWrite, duplicate: (*responder).acknowledgeAgain,
	},
	roce.KindReadRequest: {
		services: onReliable | setEEC, right: ib.AccessRemoteRead, psns: psnPerResponse,
		answer:  answer{kind: roce.KindReadResponse, returns: returnsData, respond: (*responder).sendReadResponse},
		counter: func(c *counters.Set) *uint64 { return &c.RxReadRequests },
		encode:  encodeRead, execute: executeRead, duplicate: (*responder).duplicateRead,
	},
	roce.KindCompareSwap: {
		services: onReliable | setEEC, right: ib.AccessRemoteAtomic, demand: onNumber, psns: psnOne,
		answer:  answer{kind: roce.KindAtomicAck, returns: returnsValue, respond: (*responder).sendAtomicAck},
		counter: countAtomic, encode: encodeCompareSwap,
		execute: executeCompareSwap, duplicate: (*responder).duplicateAtomic,
	},
	roce.KindFetchAdd: {
		services: onReliable | setEEC, right: ib.AccessRemoteAtomic, demand: onNumber, psns: psnOne,
		answer:  answer{kind: roce.KindAtomicAck, returns: returnsValue, respond: (*responder).sendAtomicAck},
		counter: countAtomic, encode: encodeFetchAdd,
		execute: executeFetchAdd, duplicate: (*responder).duplicateAtomic,
	},
	// A RESYNC is no message of a queue pair: EE contexts send and execute it (EEC.resynced).
	roce.KindResync: {
		psns: psnOne, answer: answer{kind: roce.KindAck}, encode: encodeResync, duplicate: (*responder).acknowledgeAgain,
	},
}

// onNumber is what atomics demand (E17).
var onNumber = demand{size: atomicSize, align: atomicSize, breach: "atomic at an address that is not a multiple of 8"}

func countAtomic(c *counters.Set) *uint64 { return &c.RxAtomicRequests }

func encodeSend(p *roce.Packet, e *ring.SendWQE, _, _ uint32) {
	p.Imm, p.InvRKey = e.Imm, ib.RKey(e.Imm)
}

func encodeWrite(p *roce.Packet, e *ring.SendWQE, off, length uint32) {
	encodeRead(p, e, off, length)
	p.Imm = e.Imm
}

func encodeRead(p *roce.Packet, e *ring.SendWQE, off, length uint32) {
	p.RETH = roce.RETH{VA: e.RemoteAddr + uint64(off), RKey: e.RKey, Length: length}
}

func encodeCompareSwap(p *roce.Packet, e *ring.SendWQE, _, _ uint32) {
	p.AtomicETH = roce.AtomicETH{VA: e.RemoteAddr, RKey: e.RKey, SwapAdd: e.Swap, Compare: e.CompareAdd}
}

func encodeFetchAdd(p *roce.Packet, e *ring.SendWQE, _, _ uint32) {
	p.AtomicETH = roce.AtomicETH{VA: e.RemoteAddr, RKey: e.RKey, SwapAdd: e.CompareAdd}
}

func encodeResync(*roce.Packet, *ring.SendWQE, uint32, uint32) {}

func executeSend(r *responder, p *Packet) fault { return r.in.executeSend(p) }

func executeWrite(r *responder, p *Packet) fault { return r.in.executeWrite(p) }

// executeRead has a READ answered when its turn to send comes.
func executeRead(r *responder, p *Packet) fault {
	e := r.kept.add(p, r.msn.Next(), packetCount(p.RETH.Length, r.ep.mtu))
	e.qp, e.src = r.in.qp, r.in.src
	e.va, e.rkey, e.mtu = p.RETH.VA, p.RETH.RKey, uint16(r.ep.mtu)
	e.length, e.stop = p.RETH.Length, p.RETH.Length
	return fault{}
}

func executeCompareSwap(r *responder, p *Packet) fault {
	return executeAtomic(r, p, func(mem []byte, a *roce.AtomicETH) uint64 { return memory.CompareSwap(mem, a.Compare, a.SwapAdd) })
}

func executeFetchAdd(r *responder, p *Packet) fault {
	return executeAtomic(r, p, func(mem []byte, a *roce.AtomicETH) uint64 { return memory.FetchAdd(mem, a.SwapAdd) })
}

// executeAtomic executes an atomic once and keeps its result for duplicates
// (E9, E11). change does to the memory what the atomic asks for, and returns the
// original value.
func executeAtomic(r *responder, p *Packet, change func(mem []byte, a *roce.AtomicETH) uint64) fault {
	a := &p.AtomicETH
	mem, err := r.ep.env.Mem.Remote(r.in.pd(), a.RKey, a.VA, atomicSize, ib.AccessRemoteAtomic)
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	var value uint64
	err = r.ep.env.Mem.Touch(func() { value = change(mem, a) })
	if err != memory.FaultNone {
		return remoteAccess("rkey: " + err.String())
	}
	e := r.kept.add(p, r.msn.Next(), 1)
	e.value, e.src = value, r.in.src
	return fault{}
}

// wrResync is the opcode of the work request with which an EE context sends a RESYNC.
const wrResync ib.WROpcode = 0xff

// requests is the table of work requests, by their opcode. What has no row here, or one
// without types, cannot be posted.
var requests = [1 << 8]request{
	ib.WRRDMAWrite: {onStreams, roce.KindWrite, 0, ib.WCRDMAWrite, placesOpcodes{
		roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLast, roce.RCRDMAWriteOnly,
	}},
	ib.WRRDMAWriteWithImm: {onStreams, roce.KindWrite, roce.FlagImm, ib.WCRDMAWrite, placesOpcodes{
		roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLastWithImm, roce.RCRDMAWriteOnlyWithImm,
	}},
	ib.WRSend: {onAll, roce.KindSend, 0, ib.WCSend, placesOpcodes{
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLast, roce.RCSendOnly,
	}},
	ib.WRSendWithImm: {onAll, roce.KindSend, roce.FlagImm, ib.WCSend, placesOpcodes{
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithImm, roce.RCSendOnlyWithImm,
	}},
	ib.WRSendWithInv: {setRC, roce.KindSend, roce.FlagInv, ib.WCSend, placesOpcodes{
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithInvalidate, roce.RCSendOnlyWithInvalidate,
	}},
	ib.WRRDMARead:        {onReliable, roce.KindReadRequest, 0, ib.WCRDMARead, placesOpcodes{only: roce.RCRDMAReadRequest}},
	ib.WRAtomicCmpAndSwp: {onReliable, roce.KindCompareSwap, 0, ib.WCCompSwap, placesOpcodes{only: roce.RCCompareSwap}},
	ib.WRAtomicFetchAdd:  {onReliable, roce.KindFetchAdd, 0, ib.WCFetchAdd, placesOpcodes{only: roce.RCFetchAdd}},
	wrResync:             {kind: roce.KindResync, opcodes: placesOpcodes{only: roce.RDResync}},
}
