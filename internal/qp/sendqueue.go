package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
)

// sendQueue is the queue of send work requests. Its entries may be in memory
// that the program writes directly; the requester's notes about them are in
// memory that the program cannot reach.
type sendQueue struct {
	ring.Ring[ring.SendWQE]
	mu        lock.Mutex[lock.SendQueue] // guards the producing side
	begun     []begunWR                  // by slot
	maxSGE    uint32
	maxInline uint32
	cq        *CQ
	sigAll    bool // every work request is signalled
	typ       ib.QPType
	datagrams bool // each entry has its own destination
	foreign   bool // others can write the memory
}

// begunWR holds the requester's notes on a started work request. After that the
// requester reads no field of the entry that it would have to check again.
type begunWR struct {
	first, last ib.PSN // its PSNs
	length      uint32 // bytes of payload; of a READ, bytes asked for
	ssn         uint32 // number of the last of its messages
	opcode      ib.WROpcode
	flags       ib.SendFlags
	numSGE      uint8
	kind        begunKind
}

// begunKind is the kind of answer that completes a work request.
type begunKind uint8

const (
	begunAcked    begunKind = iota // an acknowledgement, of others too; for UC and UD, that it is sent
	begunAnswered                  // responses of its own: a READ or an atomic
	begunWild                      // an error: the entry makes no sense, and is not sent
)

// request returns the row of the work request's opcode.
func (w *begunWR) request() *request { return &requests[w.opcode] }

// returned returns the bytes that the answer to the work request brings.
func (w *begunWR) returned() uint32 { return w.request().operation().returned(w.length) }

func (s *sendQueue) init(a ring.Allocator, t ib.QPType, c ib.QPCap) error {
	s.maxSGE, s.maxInline, s.foreign = c.MaxSendSGE, c.MaxInlineData, a.Alloc != nil
	s.typ = t
	room := max(ring.SGERoom(s.maxSGE), (s.maxInline+7)&^7)
	if s.datagrams = onAddressed.has(t); s.datagrams {
		room += ring.SendToSize
	}
	if err := s.Init(a, c.MaxSendWR, room); err != nil {
		return err
	}
	s.begun = make([]begunWR, s.Cap())
	return nil
}

// write fills entry i with a work request of length bytes.
func (s *sendQueue) write(i uint32, wr *ib.SendWR, length uint32) {
	e := s.At(i)
	e.WRID, e.RemoteAddr, e.CompareAdd, e.Swap = wr.WRID, wr.RemoteAddr, wr.CompareAdd, wr.Swap
	e.Length, e.RKey, e.Imm = length, wr.RKey, wr.ImmData
	e.Opcode, e.Flags, e.NumSGE = wr.Opcode, wr.Flags, uint8(len(wr.SGList))
	if wr.Opcode == ib.WRSendWithInv {
		e.Imm = uint32(wr.InvRKey)
	}
	if s.datagrams {
		*s.To(i) = sendTo(s.typ, wr)
	}
	copy(s.SGEs(i, uint32(len(wr.SGList))), wr.SGList)
	if wr.Flags&ib.SendInline != 0 {
		copy(s.Inline(i, length), wr.InlineData)
	}
}

// note returns the requester's notes on entry i, without its PSNs. If others
// can write the queue's memory, it checks the entry first.
func (s *sendQueue) note(i uint32) *begunWR {
	e, w := s.At(i), s.at(i)
	*w = begunWR{length: e.Length, opcode: e.Opcode, flags: e.Flags, numSGE: e.NumSGE}
	if s.foreign && !s.sane(w, i) {
		*w = begunWR{opcode: ib.WRSend, kind: begunWild}
	} else if w.request().operation().answered() {
		w.kind = begunAnswered
	}
	return w
}

// sane reports whether the opcode, flags, lengths and number of elements of
// entry i, as noted in w, obey the rules of posting.
func (s *sendQueue) sane(w *begunWR, i uint32) bool {
	req := requestOf(w.opcode)
	if req == nil || !req.types.has(s.typ) || uint32(w.numSGE) > s.maxSGE || w.length > MaxMessage {
		return false
	}
	switch op := req.operation(); {
	case !op.demand.holds(uint64(w.length)):
		return false
	case w.flags&ib.SendInline != 0:
		return w.length <= s.maxInline && w.numSGE == 0 && op.carries
	default:
		return memory.TotalLength(s.SGEs(i, uint32(w.numSGE))) == uint64(w.length)
	}
}

// at returns what was noted of the work request at index i.
func (s *sendQueue) at(i uint32) *begunWR { return &s.begun[s.Slot(i)] }

// oldest returns what was noted of the oldest work request, which has started.
func (s *sendQueue) oldest() *begunWR { return s.at(s.Cons()) }

// sges returns the elements of the begun work request at index i.
func (s *sendQueue) sges(i uint32) []ib.SGE { return s.SGEs(i, uint32(s.at(i).numSGE)) }

// signalled reports whether the work request at index i completes with a CQ
// entry on success.
func (s *sendQueue) signalled(i uint32) bool {
	return s.sigAll || s.At(i).Flags&ib.SendSignaled != 0
}
