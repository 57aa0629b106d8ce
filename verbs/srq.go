package verbs

import (
	"fmt"

	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/device"
)

// SRQInitAttr describes a shared receive queue to create. CreateSRQ sets the
// actual sizes, never less than requested.
type SRQInitAttr struct {
	MaxWR  uint32 // work requests
	MaxSGE uint32 // scatter elements of a work request
	Limit  uint32 // SRQ_LIMIT_REACHED is raised below this number of receives; 0: not armed
}

func (a *SRQInitAttr) config() device.SRQConfig {
	return device.SRQConfig{MaxWR: a.MaxWR, MaxSGE: a.MaxSGE, Limit: a.Limit}
}

// SRQ is a receive queue that several QPs share.
type SRQ struct {
	dev *device.Device
	obj device.SRQ

	check *live.SRQ
}

// CreateSRQ returns a shared receive queue. EINVAL for sizes above the adapter's
// limits, ErrInsufficientResources at the limit of queues, ErrInvalidPD.
func (p *PD) CreateSRQ(attr *SRQInitAttr) (*SRQ, error) {
	if p == nil {
		return nil, fmt.Errorf("create SRQ: %w", ErrInvalidPD)
	}
	if attr == nil {
		return nil, fmt.Errorf("create SRQ: %w", errNoAttr)
	}
	s := &SRQ{dev: p.dev}
	if err := p.obj.CreateSRQ(&s.obj, s, attr.config()); err != nil {
		used(p.checks(), err, p.check)
		return nil, fmt.Errorf("create SRQ: %w", err)
	}
	attr.MaxWR, attr.MaxSGE = s.obj.SRQ.Cap()
	s.check = s.dev.Check.MadeSRQ(s.obj.SRQ, attr.MaxWR, p.check)
	return s, nil
}

// PostRecv posts receives in order. An error is a *PostError that names the
// first receive that was refused; those before it stay posted. It does not block.
func (s *SRQ) PostRecv(wrs ...RecvWR) error {
	if err := s.object().Usable(ErrInvalidSRQ); err != nil {
		return err
	}
	if s.check != nil {
		defer s.dev.Check.Tell()
	}
	for i := range wrs {
		err := s.dev.Called("PostSRQRecv", &s.obj.Object)
		if err == nil {
			err = s.post(&wrs[i])
		}
		if err != nil {
			return &PostError{Index: i, WRID: wrs[i].WRID, Err: err}
		}
	}
	return nil
}

// post posts a receive.
func (s *SRQ) post(wr *RecvWR) error {
	if s.check == nil {
		return s.obj.SRQ.PostRecv(wr)
	}
	s.check.Begin()
	defer s.check.End()
	p := s.check.Receive(wr)
	post := s.obj.SRQ.PostRecv
	if p.Full() {
		post = s.obj.SRQ.RefuseRecv
	}
	err := post(wr)
	p.Done(err)
	return err
}

// SetLimit arms SRQ_LIMIT_REACHED: the event is raised once, when fewer than n
// receives are left. 0 disarms it. EINVAL if n is more than the queue holds.
func (s *SRQ) SetLimit(n uint32) error {
	err := s.verbs().SetLimit(n)
	s.used(err)
	return err
}

// Resize changes the number of work requests to at least n, rounded up to a power of two; Query
// returns it. Receives in the queue stay there. EINVAL if these would not fit, if n is 0 or above
// the adapter's limit, or if the armed limit would be more than the queue holds; ENOMEM
// without memory.
func (s *SRQ) Resize(n uint32) error {
	err := s.verbs().Resize(n)
	s.used(err)
	if err == nil {
		s.check.Resized()
	}
	return wrap("resize SRQ", err)
}

// used tells the checker that a call that failed has used the queue.
func (s *SRQ) used(err error) {
	if s != nil && s.check != nil {
		used(s.dev.Check, err, s.check.Base())
	}
}

// Query returns the sizes and the armed limit.
func (s *SRQ) Query() SRQInitAttr {
	if s == nil {
		return SRQInitAttr{}
	}
	wr, sge := s.obj.SRQ.Cap()
	return SRQInitAttr{MaxWR: wr, MaxSGE: sge, Limit: s.obj.SRQ.Limit()}
}

// Destroy destroys the queue and discards its receives. ErrBusy while QPs use it,
// or while an event about it is not acknowledged.
func (s *SRQ) Destroy() error {
	err := s.verbs().Destroy()
	if s != nil && s.check != nil {
		s.check.Destroyed(err, s.obj.Taken)
		s.dev.Check.Tell()
	}
	return wrap("destroy SRQ", err)
}

// verbs returns the device's side of the SRQ, nil for nil.
func (s *SRQ) verbs() *device.SRQ {
	if s == nil {
		return nil
	}
	return &s.obj
}

// object returns what events about the SRQ refer to, nil for nil.
func (s *SRQ) object() *device.Object {
	if s == nil {
		return nil
	}
	return &s.obj.Object
}
