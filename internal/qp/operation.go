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
	// remote memory on. Those that the opcode does not have are not sent.
	encode func(p *roce.Packet, e *ring.SendWQE, off, length uint32)

	// check checks the length of a request's payload (E15); nil: the rule of its
	// opcode is enough.
	check func(*receiver, *Packet) fault

	// execute does what a request asks for. Everything but what happens to
	// memory in this very moment has been checked.
	execute func(*responder, *Packet) fault

	// duplicate answers a request that was executed before (E9); nil: it is dropped.
	duplicate func(*responder, *Packet)
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

// receiveRule says when an operation takes a receive work request.
type receiveRule struct {
	at     roce.OpFlags // flag of the packet that takes it; 0: none does
	opcode ib.WCOpcode  // of its completion
}

// answer says how an operation is answered.
type answer struct {
	kind    roce.Kind // of the responses; KindAck: acknowledged with others
	returns returns

	// respond sends the next response of its own to a request. It reports false when the
	// batch is full, and a fault when the memory has gone. Nil: it has none.
	respond func(*responder, *fabric.Batch, *resource) (bool, memory.Fault)
}

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
	return Posting{Only: r.opcodes.only, Size: op.demand.size, Inline: op.carries, types: r.types}, true
}
