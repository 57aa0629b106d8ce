package qp

import (
	"math/bits"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// typeSet is a set of transport services.
type typeSet uint8

func setOf(ts ...ib.QPType) typeSet {
	var s typeSet
	for _, t := range ts {
		s |= 1 << t
	}
	return s
}

func (s typeSet) has(t ib.QPType) bool { return s>>t&1 != 0 }

var (
	onAll       = setOf(ib.RC, ib.UC, ib.UD, ib.GSI, ib.RD)
	onStreams   = setOf(ib.RC, ib.UC, ib.RD)
	onReliable  = setOf(ib.RC, ib.RD)
	onRC        = setOf(ib.RC)
	onConnected = setOf(ib.RC, ib.UC, ib.EEC) // endpoints that have one peer
)

// operation describes one kind of request for both ends; it does not depend on
// the packet's place in the message.
type operation struct {
	right   ib.Access    // right that the responder's queue pair and region must grant; 0: none
	receive roce.OpFlags // flag of the packet that takes a receive work request; 0: none does
	message message      // state of the receiver between packets of the message
	answer  roce.Kind    // KindAck: a cumulative acknowledgement; otherwise a response of its own
	psns    psnRule
}

// psnRule says how many PSNs an operation uses.
type psnRule uint8

const (
	psnPerPayload  psnRule = iota // one for each packet of payload
	psnPerResponse                // one for each packet of its answer
	psnOne
)

// operations is the one table of operations, by the kind of their packets.
var operations = [...]operation{
	roce.KindSend:        {0, roce.FlagStart, messageSend, roce.KindAck, psnPerPayload},
	roce.KindWrite:       {ib.AccessRemoteWrite, roce.FlagImm, messageWrite, roce.KindAck, psnPerPayload},
	roce.KindReadRequest: {ib.AccessRemoteRead, 0, messageNone, roce.KindReadResponse, psnPerResponse},
	roce.KindCompareSwap: {ib.AccessRemoteAtomic, 0, messageNone, roce.KindAtomicAck, psnOne},
	roce.KindFetchAdd:    {ib.AccessRemoteAtomic, 0, messageNone, roce.KindAtomicAck, psnOne},
}

// operationOf returns the operation of a packet; for an unsupported kind, a row
// that is not provided.
func operationOf(k roce.Kind) *operation {
	if int(k) < len(operations) {
		return &operations[k]
	}
	return &operations[roce.KindAck]
}

// provided reports whether a responder can execute the operation.
func (o *operation) provided() bool { return o.right != 0 || o.receive != 0 }

// answered reports whether the operation is answered by data: a READ or an
// atomic.
func (o *operation) answered() bool { return o.answer != roce.KindAck && o.provided() }

// packets returns the PSNs that a message of n bytes takes: at least one.
func (o *operation) packets(n uint32, mtu int) uint32 {
	if o.psns == psnOne {
		return 1
	}
	return packetCount(n, mtu)
}

// requestPSNs returns the PSNs that one request packet takes.
func (o *operation) requestPSNs(p *Packet, mtu int) uint32 {
	if o.psns != psnPerResponse {
		return 1
	}
	return packetCount(p.RETH.Length, mtu)
}

// packetCount returns the packets that n bytes of payload take: at least one.
// A path MTU is a power of two.
func packetCount(n uint32, mtu int) uint32 {
	return max(1, uint32((uint64(n)+uint64(mtu)-1)>>bits.TrailingZeros32(uint32(mtu))))
}

// TakesReceive reports whether a request consumes a receive work request: the
// first packet of a SEND, the last of a WRITE with immediate.
func (p *Packet) TakesReceive() bool {
	return p.Info.Flags&roce.FlagResponse == 0 && operationOf(p.Info.Kind).receive&p.Info.Flags != 0
}

// request is how a work request names an operation.
type request struct {
	types   typeSet // services that have it; none: not provided here
	kind    roce.Kind
	flags   roce.OpFlags  // immediate or invalidate, in addition to the flags of the place in the message
	wc      ib.WCOpcode   // of its completion
	opcodes placesOpcodes // of RC
}

// placesOpcodes are the opcodes of one operation by place in the message.
type placesOpcodes struct{ first, middle, last, only roce.Opcode }

// requests is indexed by the opcode of a work request.
var requests = [...]request{
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
	ib.WRSendWithInv: {onRC, roce.KindSend, roce.FlagInv, ib.WCSend, placesOpcodes{
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithInvalidate, roce.RCSendOnlyWithInvalidate,
	}},
	ib.WRRDMARead:        {onReliable, roce.KindReadRequest, 0, ib.WCRDMARead, placesOpcodes{only: roce.RCRDMAReadRequest}},
	ib.WRAtomicCmpAndSwp: {onReliable, roce.KindCompareSwap, 0, ib.WCCompSwap, placesOpcodes{only: roce.RCCompareSwap}},
	ib.WRAtomicFetchAdd:  {onReliable, roce.KindFetchAdd, 0, ib.WCFetchAdd, placesOpcodes{only: roce.RCFetchAdd}},
}

// requestOf returns the row of a work request's opcode, nil when the operation
// is not provided here.
func requestOf(o ib.WROpcode) *request {
	if int(o) < len(requests) && requests[o].types != 0 {
		return &requests[o]
	}
	return nil
}

// operation returns what the request asks for.
func (r *request) operation() *operation { return &operations[r.kind] }

// takesReceive reports whether the message consumes a receive at the peer.
func (r *request) takesReceive() bool {
	return r.operation().receive&(roce.FlagStart|r.flags) != 0
}

// opcode returns the opcode of a packet that starts the message, ends it, both
// or neither.
func (r *request) opcode(t ib.QPType, start, end bool) roce.Opcode {
	o := r.opcodes.middle
	switch {
	case start && end:
		o = r.opcodes.only
	case start:
		o = r.opcodes.first
	case end:
		o = r.opcodes.last
	}
	return o | roce.Opcode(serviceOf(t))<<5
}

// serviceOf returns the opcode class of a service.
func serviceOf(t ib.QPType) roce.Service {
	switch t {
	case ib.RC:
		return roce.ServiceRC
	case ib.UC:
		return roce.ServiceUC
	case ib.RD, ib.EEC:
		return roce.ServiceRD
	default:
		return roce.ServiceUD
	}
}
