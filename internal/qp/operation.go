package qp

import (
	"math/bits"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// operation is what a request asks of both ends, whatever its place in a
// message. To add an operation, add a row to operations, one to requests, and
// the functions that they name.
type operation struct {
	services typeSet   // endpoints that execute it; none: it is not provided here
	right    ib.Access // that the responder's queue pair and region must grant; 0: it needs no key
	demand   demand    // on the memory that it names
	psns     psnRule
	carries  bool    // its requests carry payload
	message  message // what a responder is in the middle of between its packets
	receive  receiveRule
	answer   answer

	// counter is what counts its requests at the responder; nil: nothing does.
	counter func(*counters.Set) *uint64

	// encode writes the headers of a request about length bytes from byte off of the
	// remote memory on. Headers that the opcode does not have are not sent.
	encode func(p *roce.Packet, e *ring.SendWQE, off, length uint32)

	// check checks the length of a request's payload (E15); nil: the rule of its
	// opcode is enough.
	check func(*receiver, *Packet) fault

	// execute does what a request asks for. Everything but what happens to
	// memory in this very moment has been checked.
	execute func(*responder, *Packet) fault

	// duplicate answers a request that was executed before (E9); nil: it is dropped.
	duplicate func(*responder, *Packet)

	// local executes a work request that sends nothing; nil: it sends requests. The entry may
	// be in memory that the program writes, so each field is read once.
	local func(*QP, *ring.SendWQE) memory.Fault
}

// demand is what an operation demands of the memory that its requests name.
type demand struct {
	size   uint32 // bytes, no more and no less; 0: any number
	align  uint64 // the address is a multiple of this power of two; 0: any address
	breach string // what traces say of a request that breaks this
}

// met reports whether n bytes at an address are as demanded.
func (d *demand) met(va uint64, n uint32) bool {
	return d.holds(uint64(n)) && (d.align == 0 || va&(d.align-1) == 0)
}

// holds reports whether n bytes are as many as demanded.
func (d *demand) holds(n uint64) bool { return d.size == 0 || n == uint64(d.size) }

// holdsAnswer reports whether a list of n bytes suits the operation. Programs that write their
// entries themselves may give an atomic a longer list, as on Linux: the value goes into its first
// bytes.
func (o *operation) holdsAnswer(n uint64) bool {
	return o.demand.holds(n) || o.answer.returns == returnsValue && n > uint64(o.demand.size)
}

// receiveRule says when an operation takes a receive work request.
type receiveRule struct {
	at     roce.OpFlags // flag of the packet that takes it; 0: none does
	opcode ib.WCOpcode  // of its completion
}

// answer says how an operation is answered.
type answer struct {
	kind    roce.Kind // of the responses; KindAck: acknowledged with others
	returns returns

	// respond sends the next response of its own to a request, and reports a fault when the
	// memory has gone. Nil: it has none.
	respond func(*responder, *fabric.Batch, *resource) (progress, memory.Fault)
}

// progress is what became of a response that was to be sent.
type progress uint8

const (
	responseSent progress = iota
	batchFull             // there was no room
	responseLate          // its request is not executed yet; WrittenBack wakes the end
)

// returns is what the responses to a request bring back.
type returns uint8

const (
	returnsNothing returns = iota
	returnsData            // the bytes asked for
	returnsValue           // the original value of an atomic
)

// psnRule says which PSNs an operation takes.
type psnRule uint8

const (
	psnNone        psnRule = iota // none: it sends nothing
	psnPerPayload                 // one for each packet of payload
	psnPerResponse                // one for each packet of its answer
	psnOne
)

// operationOf returns the operation of a packet. Its services are none if it asks for
// nothing that can be done here.
func operationOf(k roce.Kind) *operation { return &operations[k] }

// begun returns what completes a work request.
func (o *operation) begun() begunKind {
	switch {
	case o.answered():
		return begunAnswered
	case o.psns == psnNone:
		return begunLocal
	}
	return begunAcked
}

// answered reports whether the operation has responses of its own.
func (o *operation) answered() bool { return o.answer.respond != nil }

// returned returns the bytes that the answer to a request about n bytes brings.
func (o *operation) returned(n uint32) uint32 {
	switch o.answer.returns {
	case returnsData:
		return n
	case returnsValue:
		return atomicSize
	case returnsNothing:
	}
	return 0
}

// packets returns the PSNs that a message of n bytes takes.
func (o *operation) packets(n uint32, mtu int) uint32 {
	switch o.psns {
	case psnPerPayload, psnPerResponse:
		return packetCount(n, mtu)
	case psnOne:
		return 1
	case psnNone:
	}
	return 0
}

// requestPSNs returns the PSNs that one request packet takes.
func (o *operation) requestPSNs(p *Packet, mtu int) uint32 {
	if o.psns != psnPerResponse {
		return 1
	}
	return packetCount(p.RETH.Length, mtu)
}

// asked counts a request that begins a message.
func (o *operation) asked(c *counters.Set) {
	if o.counter != nil {
		*o.counter(c)++
	}
}

// packetCount returns the packets that n bytes of payload take: at least one.
// A path MTU is a power of two.
func packetCount(n uint32, mtu int) uint32 {
	return max(1, uint32((uint64(n)+uint64(mtu)-1)>>bits.TrailingZeros32(uint32(mtu))))
}

// TakesReceive reports whether a request consumes a receive work request: the
// first packet of a SEND, the last of a WRITE with immediate.
func (p *Packet) TakesReceive() bool {
	return p.Info.Flags&roce.FlagResponse == 0 && operationOf(p.Info.Kind).receive.at&p.Info.Flags != 0
}

// request is how a work request names an operation.
type request struct {
	types   typeSet // queue pairs that may post it; none: not provided here
	kind    roce.Kind
	flags   roce.OpFlags  // immediate or invalidate, in addition to the flags of the place in the message
	wc      ib.WCOpcode   // of its completion
	opcodes placesOpcodes // of RC
}

// placesOpcodes are the opcodes of one operation by place in the message.
type placesOpcodes struct{ first, middle, last, only roce.Opcode }

// requestOf returns the row of a work request's opcode, nil when the operation
// is not provided here.
func requestOf(o ib.WROpcode) *request {
	if r := &requests[o]; r.types != 0 {
		return r
	}
	return nil
}

// operation returns what the request asks for.
func (r *request) operation() *operation { return &operations[r.kind] }

// takesReceive reports whether the message consumes a receive at the peer.
func (r *request) takesReceive() bool {
	return r.operation().receive.at&(roce.FlagStart|r.flags) != 0
}

// opcode returns the opcode of the packet that begins at the start of a
// message or not, and ends it or not.
func (r *request) opcode(s roce.Service, start, end bool) roce.Opcode {
	o := r.opcodes.middle
	switch {
	case start && end:
		o = r.opcodes.only
	case start:
		o = r.opcodes.first
	case end:
		o = r.opcodes.last
	}
	return inService(o, s)
}

// inService returns the opcode of another service than RC for the same operation.
func inService(o roce.Opcode, s roce.Service) roce.Opcode { return o | roce.Opcode(s)<<5 }

// Posting is what a program that writes work requests into a send queue itself must follow.
type Posting struct {
	Only   roce.Opcode // of RC, for a message of one packet
	Size   uint32      // bytes that its elements hold; 0: any number
	Inline bool        // it carries payload, which may be inline
	Local  bool        // it sends nothing and has no elements

	types typeSet
}

// On reports whether queue pairs of a type take the work request.
func (p *Posting) On(t ib.QPType) bool { return p.types.has(t) }

// PostingOf returns what holds of work requests with an opcode, false if no queue pair takes
// them.
func PostingOf(o ib.WROpcode) (Posting, bool) {
	r := requestOf(o)
	if r == nil {
		return Posting{}, false
	}
	op := r.operation()
	return Posting{Only: r.opcodes.only, Size: op.demand.size, Inline: op.carries, Local: op.local != nil, types: r.types}, true
}

// operations is the one table of operations, by the kind of their packets. What has no row
// here is not provided: a responder refuses it. The functions of a row report what they find,
// and their callers act on it: a function that fails a queue pair would lead back to the
// table, which Go does not compile.
var operations = [1 << 8]operation{
	roce.KindSend: {
		services: onAll | executes, psns: psnPerPayload, carries: true, message: messageSend,
		receive: receiveRule{at: roce.FlagStart, opcode: ib.WCRecv},
		answer:  answer{kind: roce.KindAck},
		encode:  encodeSend, check: (*receiver).checkSendLength,
		execute: executeSend, duplicate: (*responder).acknowledgeAgain,
	},
	roce.KindWrite: {
		services: onStreams | executes, right: ib.AccessRemoteWrite, psns: psnPerPayload, carries: true, message: messageWrite,
		receive: receiveRule{at: roce.FlagImm, opcode: ib.WCRecvRDMAWithImm},
		answer:  answer{kind: roce.KindAck},
		counter: func(c *counters.Set) *uint64 { return &c.RxWriteRequests },
		encode:  encodeWrite, check: (*receiver).checkWriteLength,
		execute: executeWrite, duplicate: (*responder).acknowledgeAgain,
	},
	roce.KindReadRequest: {
		services: onReliable | executes, right: ib.AccessRemoteRead, psns: psnPerResponse,
		answer:  answer{kind: roce.KindReadResponse, returns: returnsData, respond: (*responder).sendReadResponse},
		counter: func(c *counters.Set) *uint64 { return &c.RxReadRequests },
		encode:  encodeRead, execute: executeRead, duplicate: (*responder).duplicateRead,
	},
	roce.KindCompareSwap: {
		services: onReliable | executes, right: ib.AccessRemoteAtomic, demand: onNumber, psns: psnOne,
		answer:  answer{kind: roce.KindAtomicAck, returns: returnsValue, respond: (*responder).sendAtomicAck},
		counter: countAtomic, encode: encodeCompareSwap,
		execute: executeCompareSwap, duplicate: (*responder).duplicateAtomic,
	},
	roce.KindFetchAdd: {
		services: onReliable | executes, right: ib.AccessRemoteAtomic, demand: onNumber, psns: psnOne,
		answer:  answer{kind: roce.KindAtomicAck, returns: returnsValue, respond: (*responder).sendAtomicAck},
		counter: countAtomic, encode: encodeFetchAdd,
		execute: executeFetchAdd, duplicate: (*responder).duplicateAtomic,
	},
	roce.KindAtomicWrite: {
		services: onRequests | onResponses, right: ib.AccessRemoteWrite, demand: onWord, psns: psnOne, carries: true,
		answer:  answer{kind: roce.KindReadResponse, respond: answerAtomicWrite},
		counter: func(c *counters.Set) *uint64 { return &c.RxWriteRequests },
		encode:  encodeRead, execute: executeAtomicWrite, duplicate: (*responder).duplicateAtomic,
	},
	// Which rights and which key a FLUSH needs depends on its header: checkFlush.
	roce.KindFlush: {
		services: onRequests | onResponses, psns: psnOne,
		answer: answer{kind: roce.KindReadResponse, respond: answerFlush},
		encode: encodeFlush, check: (*receiver).checkFlush,
		execute: executeFlush, duplicate: (*responder).duplicateAtomic,
	},
	// A RESYNC is no message of a queue pair: EE contexts send and execute it (EEC.resynced).
	roce.KindResync: {
		psns: psnOne, answer: answer{kind: roce.KindAck}, encode: encodeResync, duplicate: (*responder).acknowledgeAgain,
	},
	// The local operations of memory windows.
	kindBindMW:   {local: executeBindMW},
	kindLocalInv: {local: executeLocalInv},
}

// The kinds of local operations. No packet has them.
const (
	kindBindMW roce.Kind = 0xff - iota
	kindLocalInv
)

// onNumber is what atomics demand (E17).
var onNumber = demand{size: atomicSize, align: atomicSize, breach: "atomic at an address that is not a multiple of 8"}

// onWord is what an ATOMIC WRITE demands.
var onWord = demand{size: atomicSize, align: atomicSize, breach: "ATOMIC WRITE of other than 8 bytes at a multiple of 8"}

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

func encodeFlush(p *roce.Packet, e *ring.SendWQE, _, _ uint32) {
	p.FETH = roce.FETH{Placement: uint8(e.Imm) & (1<<flushLevelShift - 1), Selectivity: uint8(e.Imm >> flushLevelShift)}
	p.RETH = roce.RETH{VA: e.RemoteAddr, RKey: e.RKey, Length: uint32(e.CompareAdd)}
}

func encodeResync(*roce.Packet, *ring.SendWQE, uint32, uint32) {}

func executeSend(r *responder, p *Packet) fault { return r.in.executeSend(p) }

func executeWrite(r *responder, p *Packet) fault { return r.in.executeWrite(p) }

// executeRead has a READ answered when its turn to send comes.
func executeRead(r *responder, p *Packet) fault {
	e := r.kept.add(p, r.msn.Next(), packetCount(p.RETH.Length, r.ep.mtu))
	e.qp, e.pd, e.src = r.in.qp, r.in.via().PD, r.in.src
	e.va, e.rkey, e.mtu = p.RETH.VA, p.RETH.RKey, uint16(r.ep.mtu)
	e.length, e.stop = p.RETH.Length, p.RETH.Length
	return fault{}
}

// wrResync is the opcode of the work request with which an EE context sends a RESYNC.
const wrResync ib.WROpcode = 0xff

// requests is the table of work requests, by their opcode. A work request can be posted if
// it has a row with types of queue pairs.
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
	ib.WRSendWithInv: {setRC | setXRCIni, roce.KindSend, roce.FlagInv, ib.WCSend, placesOpcodes{
		roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithInvalidate, roce.RCSendOnlyWithInvalidate,
	}},
	ib.WRRDMARead:        {onReliable, roce.KindReadRequest, 0, ib.WCRDMARead, placesOpcodes{only: roce.RCRDMAReadRequest}},
	ib.WRAtomicCmpAndSwp: {onReliable, roce.KindCompareSwap, 0, ib.WCCompSwap, placesOpcodes{only: roce.RCCompareSwap}},
	ib.WRAtomicFetchAdd:  {onReliable, roce.KindFetchAdd, 0, ib.WCFetchAdd, placesOpcodes{only: roce.RCFetchAdd}},
	ib.WRAtomicWrite:     {onResponses, roce.KindAtomicWrite, 0, ib.WCAtomicWrite, placesOpcodes{only: roce.RCAtomicWrite}},
	ib.WRFlush:           {onResponses, roce.KindFlush, 0, ib.WCFlush, placesOpcodes{only: roce.RCFlush}},
	ib.WRBindMW:          {types: onWindows, kind: kindBindMW, wc: ib.WCBindMW},
	ib.WRLocalInv:        {types: onWindows, kind: kindLocalInv, wc: ib.WCLocalInv},
	wrResync:             {kind: roce.KindResync, opcodes: placesOpcodes{only: roce.RDResync}},
}

// typeSet is a set of transport services: bit t is the ib.QPType t. The sets are
// constants, so a type that is too large for the set does not compile.
type typeSet uint32

const (
	setRC     typeSet = 1 << ib.RC
	setUC     typeSet = 1 << ib.UC
	setUD     typeSet = 1 << ib.UD
	setGSI    typeSet = 1 << ib.GSI
	setRD     typeSet = 1 << ib.RD
	setEEC    typeSet = 1 << ib.EEC
	setXRCIni typeSet = 1 << ib.XRCIni
	setXRCTgt typeSet = 1 << ib.XRCTgt

	onDatagrams = setUD | setGSI            // each message names its destination in the network
	onReliable  = setRC | setRD | setXRCIni // queue pairs that post to a reliable service
	onStreams   = onReliable | setUC
	onAll       = onStreams | onDatagrams
	executes    = setEEC | setXRCTgt // ends that execute requests, and post none

	onWindows      = setRC | setUC                          // queue pairs whose peer uses memory windows
	onAcknowledged = setRC | setEEC | setXRCIni | setXRCTgt // endpoints whose peer answers
	onConnected    = onAcknowledged | setUC                 // endpoints that have one peer
	onAddressed    = onDatagrams | setRD                    // queue pairs whose work requests name where they go
	onSQE          = setUC | onAddressed                    // queue pairs that have the state SQE
	onSendTo       = onAddressed | setXRCIni                // queue pairs whose entries have a ring.SendTo

	onXRC       = setXRCIni | setXRCTgt
	onRequests  = setRC | setXRCTgt // queue pairs that answer requests
	onResponses = setRC | setXRCIni // queue pairs whose requests are answered
)

func (s typeSet) has(t ib.QPType) bool { return s>>t&1 != 0 }

// traits are the properties of an endpoint that follow from its type.
type traits struct {
	service roce.Service  // opcode class
	doubted claims        // claims of packets that the endpoint challenges
	maxNAK  roce.Syndrome // highest NAK code that the peer may send
	opError ib.WCStatus   // of a work request that the endpoint's attributes do not allow
}

// traitsOf returns the traits of a type.
func traitsOf(t ib.QPType) traits {
	switch t {
	case ib.RC:
		return traits{roce.ServiceRC, claimNAK | claimMoved | claimGone, roce.NAKRemoteOperational, ib.WCLocQPOpErr}
	case ib.XRCIni:
		return traits{roce.ServiceXRC, claimNAK | claimMoved | claimGone, roce.NAKRemoteOperational, ib.WCLocQPOpErr}
	case ib.XRCTgt:
		// A target sends no request, so it has no probe to send, and its peer no NAK.
		return traits{service: roce.ServiceXRC, doubted: claimNAK, opError: ib.WCLocQPOpErr}
	case ib.UC:
		return traits{service: roce.ServiceUC, opError: ib.WCLocQPOpErr}
	case ib.UD, ib.GSI:
		return traits{service: roce.ServiceUD, opError: ib.WCLocQPOpErr}
	case ib.RD:
		return traits{service: roce.ServiceRD, opError: ib.WCLocQPOpErr}
	case ib.EEC:
		// A NAK ends one message, not the channel, and the peer's EE context still answers
		// after it. So EE contexts act on every NAK at once.
		return traits{roce.ServiceRD, claimMoved, roce.NAKInvalidRD, ib.WCLocEECOpErr}
	default:
		panic("qp: " + t.String() + " has no opcodes")
	}
}

// sendTo returns the destination of a work request on a queue pair of type t, one of
// onSendTo.
func sendTo(t ib.QPType, wr *ib.SendWR) ring.SendTo {
	switch t {
	case ib.RD:
		return ring.SendTo{AH: uint64(wr.EEC), QPN: wr.RemoteQPN, QKey: wr.RemoteQKey}
	case ib.XRCIni:
		return ring.SendTo{AH: uint64(wr.RemoteSRQN)}
	default:
		return ring.SendTo{AH: uint64(wr.AH), QPN: wr.RemoteQPN, QKey: wr.RemoteQKey}
	}
}
