package qp

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
)

// SRQ is a receive queue that several QPs share.
type SRQ struct {
	pd      memory.PD
	onLimit func() // raises SRQ_LIMIT_REACHED; must not block
	users   atomic.Int32

	// Of XRC only (EnterXRC).
	num    ib.SRQN
	domain *XRCD
	cq     *CQ // of all receives

	// Track is the queue's row in the table of objects, and TrackInfo what is in it. Both belong to
	// the adapter.
	Track     restrack.Handle[restrack.SRQInfo, restrack.NoCounts]
	TrackInfo restrack.SRQInfo

	rq    recvQueue
	limit uint32 // guarded by rq.mu
	// returned holds work requests that XRC targets have taken and put back, at most one for
	// each target. Guarded by rq.mu.
	returned []recvSlot
}

// NewSRQ returns a shared receive queue for at least wr work requests of at
// most sge scatter elements each. onLimit is called when an armed limit is
// reached, from the thread that receives. ENOMEM or EINVAL if the allocator
// fails.
func NewSRQ(a ring.Allocator, pd memory.PD, wr, sge uint32, onLimit func()) (*SRQ, error) {
	s := &SRQ{pd: pd, onLimit: onLimit}
	return s, s.rq.init(a, wr, sge)
}

// Free gives the memory of the queue back: posting must have ended.
func (s *SRQ) Free() { s.rq.Free() }

// Number returns the queue's number in the table of objects; 0 on nil.
func (s *SRQ) Number() uint32 {
	if s == nil {
		return 0
	}
	return s.TrackInfo.Num
}

// SRQBytes returns how much memory NewSRQ allocates for the queue.
func SRQBytes(wr, sge uint32) int { return ring.Bytes[ring.RecvWQE](wr, ring.SGERoom(sge)) }

// Queue returns the header of the queue, which does not move until Free.
func (s *SRQ) Queue() *ring.Header { return s.rq.Header() }

// PD returns the protection domain.
func (s *SRQ) PD() memory.PD { return s.pd }

// Cap returns the number of work requests and of scatter elements.
func (s *SRQ) Cap() (wr, sge uint32) {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	return s.rq.Cap(), s.rq.maxSGE
}

// Resize changes the number of work requests to at least wr; posted ones stay. EINVAL if
// these would not fit, or if fewer than the armed limit would; ENOMEM or EINVAL if the
// allocator fails. A program that writes entries itself must not do so meanwhile.
func (s *SRQ) Resize(wr uint32) error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if n := ring.Size(wr); n < s.limit {
		return fmt.Errorf("resize an SRQ to %d work requests: the armed limit is %d: %w", n, s.limit, ib.EINVAL)
	}
	return s.rq.Resize(wr)
}

// Limit returns the armed limit, 0 when it is not armed.
func (s *SRQ) Limit() uint32 {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	return s.limit
}

// SetLimit arms SRQ_LIMIT_REACHED: it is raised once, when fewer than n work
// requests are left after one is taken. 0 disarms. EINVAL when n is more than
// the queue holds.
func (s *SRQ) SetLimit(n uint32) error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if n > s.rq.Cap() {
		return fmt.Errorf("SRQ limit %d is over its %d work requests: %w", n, s.rq.Cap(), ib.EINVAL)
	}
	s.limit = n
	return nil
}

// PostRecv adds a work request. It copies wr. Errors: EINVAL for too many or
// too long scatter elements, ENOMEM when the queue is full.
func (s *SRQ) PostRecv(wr *ib.RecvWR) error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	return s.rq.post(wr)
}

// RefuseRecv returns the error of PostRecv if the queue were full. It posts nothing.
func (s *SRQ) RefuseRecv(wr *ib.RecvWR) error { return s.rq.refuse(wr) }

// take moves the oldest work request into the slot, and copies its elements
// into the slot.
func (s *SRQ) take(slot *recvSlot) bool {
	s.rq.mu.Lock()
	if !s.takeOldest(slot) {
		s.rq.mu.Unlock()
		return false
	}
	n, _ := s.rq.Len()
	reached := s.limit != 0 && n+uint32(len(s.returned)) < s.limit
	if reached {
		s.limit = 0
	}
	s.rq.mu.Unlock()
	if reached {
		s.onLimit()
	}
	return true
}

// takeOldest moves the oldest work request into the slot, and copies its elements. The caller holds
// rq.mu.
func (s *SRQ) takeOldest(slot *recvSlot) bool {
	room := slot.sges[:0]
	if len(s.returned) > 0 {
		*slot = s.returned[0]
		s.returned = slices.Delete(s.returned, 0, 1)
		slot.sges = append(room, slot.sges...)
		return true
	}
	if !s.rq.take(slot) {
		return false
	}
	slot.sges = append(room, slot.sges...)
	s.rq.complete()
	return true
}

// putBack returns a work request to the queue. It was taken for a message that was then dropped as
// doubtful; the next message to the queue takes it.
func (s *SRQ) putBack(slot *recvSlot) {
	slot.spare = false
	back := *slot
	back.sges = slices.Clone(slot.sges)
	slot.taken = false
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	s.returned = append(s.returned, back)
}

// complete has nothing to do: the work request left the queue when it was
// taken.
func (s *SRQ) complete() {}

// credits reports none: the receives belong to no single queue pair.
func (s *SRQ) credits() (uint32, bool) { return 0, false }

// Hold counts a QP that uses the SRQ; Release takes it back; Users returns the
// count.
func (s *SRQ) Hold() { s.users.Add(1) }

// Release takes one Hold back.
func (s *SRQ) Release() { s.users.Add(-1) }

// Users returns how many QPs use the SRQ.
func (s *SRQ) Users() int { return int(s.users.Load()) }
