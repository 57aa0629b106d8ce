package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/ring"
)

// sendQueue is a ring of send work requests with their gather elements and
// inline payloads in arrays beside it.
type sendQueue struct {
	ring.Ring[ring.SendWQE]
	sge       []ib.SGE
	maxSGE    uint32
	inline    []byte
	maxInline uint32
}

func (s *sendQueue) init(c ib.QPCap) {
	n := ring.Size(c.MaxSendWR)
	s.Init(make([]ring.SendWQE, n))
	s.maxSGE, s.maxInline = c.MaxSendSGE, c.MaxInlineData
	s.sge = make([]ib.SGE, n*s.maxSGE)
	s.inline = make([]byte, n*s.maxInline)
}

// sges returns the gather elements of the work request at index i.
func (s *sendQueue) sges(i uint32) []ib.SGE {
	lo := s.Slot(i) * s.maxSGE
	return s.sge[lo : lo+uint32(s.At(i).NumSGE)]
}

// inlineData returns the room for inline payload of the work request at index i.
func (s *sendQueue) inlineData(i uint32) []byte {
	lo := s.Slot(i) * s.maxInline
	return s.inline[lo : lo+s.maxInline]
}

// recvQueue is a ring of receive work requests with their scatter elements.
type recvQueue struct {
	ring.Ring[ring.RecvWQE]
	sge    []ib.SGE
	maxSGE uint32
}

func (r *recvQueue) init(wr, sge uint32) {
	n := ring.Size(wr)
	r.Init(make([]ring.RecvWQE, n))
	r.maxSGE = sge
	r.sge = make([]ib.SGE, n*sge)
}

// sges returns the scatter elements of the work request at index i.
func (r *recvQueue) sges(i uint32) []ib.SGE {
	lo := r.Slot(i) * r.maxSGE
	return r.sge[lo : lo+r.At(i).NumSGE]
}

// put writes a checked work request into the next free entry.
func (r *recvQueue) put(wr *ib.RecvWR, length uint32) {
	i := r.Prod()
	w := r.At(i)
	w.WRID, w.Length, w.NumSGE = wr.WRID, length, uint32(len(wr.SGList))
	copy(r.sges(i), wr.SGList)
	r.Publish()
}
