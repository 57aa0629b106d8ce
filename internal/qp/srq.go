package qp

import (
	"fmt"
	"sync"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/ring"
)

// SRQ is a receive queue that several QPs share.
type SRQ struct {
	pd      memory.PD
	onLimit func() // raises SRQ_LIMIT_REACHED; must not block

	mu    sync.Mutex // guards what follows
	rq    recvQueue
	limit uint32
	users int
}

// NewSRQ returns a shared receive queue for at least wr work requests of at
// most sge scatter elements each. onLimit is called when an armed limit is
// reached, from the thread that receives.
func NewSRQ(pd memory.PD, wr, sge uint32, onLimit func()) *SRQ {
	s := &SRQ{pd: pd, onLimit: onLimit}
	s.rq.init(wr, sge)
	return s
}

// PD returns the protection domain.
func (s *SRQ) PD() memory.PD { return s.pd }

// Cap returns the number of work requests and of scatter elements.
func (s *SRQ) Cap() (wr, sge uint32) { return s.rq.Cap(), s.rq.maxSGE }

// Limit returns the armed limit, 0 when it is not armed.
func (s *SRQ) Limit() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// SetLimit arms SRQ_LIMIT_REACHED: it is raised once, when fewer than n work
// requests are left after one is taken. 0 disarms. EINVAL when n is more than
// the queue holds.
func (s *SRQ) SetLimit(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.rq.Cap() {
		return fmt.Errorf("SRQ limit %d is over its %d work requests: %w", n, s.rq.Cap(), ib.EINVAL)
	}
	s.limit = n
	return nil
}

// PostRecv adds a work request. It copies wr. Errors: EINVAL for too many or
// too long scatter elements, ENOMEM when the queue is full.
func (s *SRQ) PostRecv(wr *ib.RecvWR) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := checkRecv(wr, s.rq.maxSGE)
	if err != nil {
		return err
	}
	if s.rq.Full() {
		return errQueueFull
	}
	s.rq.put(wr, n)
	return nil
}

// take moves the oldest work request out, its elements into sges, which must
// be long enough.
func (s *SRQ) take(w *ring.RecvWQE, sges []ib.SGE) bool {
	s.mu.Lock()
	if s.rq.Len() == 0 {
		s.mu.Unlock()
		return false
	}
	i := s.rq.Cons()
	*w = *s.rq.At(i)
	copy(sges, s.rq.sges(i))
	s.rq.Release(1)
	reached := s.limit != 0 && s.rq.Len() < s.limit
	if reached {
		s.limit = 0
	}
	s.mu.Unlock()
	if reached {
		s.onLimit()
	}
	return true
}

// Hold counts a QP that uses the SRQ.
func (s *SRQ) Hold() { s.addUsers(1) }

// Release takes one Hold back.
func (s *SRQ) Release() { s.addUsers(-1) }

func (s *SRQ) addUsers(n int) {
	s.mu.Lock()
	s.users += n
	s.mu.Unlock()
}

// Users returns how many QPs use the SRQ.
func (s *SRQ) Users() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users
}
