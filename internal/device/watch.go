package device

import (
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/lock"
)

// Watch registers gone, which is called once by the control plane: when the
// device is closed (cause is nil, and packets that gone sends still leave), or
// when it has failed (now is zero, and the device must not be used). If that
// has already happened, gone is called at once. stop ends the watch.
func (d *Device) Watch(gone func(now clock.Instant, cause error)) (stop func()) {
	s := &d.watchers
	s.mu.Lock()
	over, cause := s.over, s.cause
	if !over {
		s.all[&gone] = struct{}{}
	}
	s.mu.Unlock()
	if over {
		gone(0, cause)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, &gone)
	}
}

// watchers are notified once that the device is gone.
type watchers struct {
	mu    lock.Mutex[lock.Watchers] // guards what follows
	all   map[*func(now clock.Instant, cause error)]struct{}
	over  bool
	cause error // cause of a failure; nil after Close
}

// tell is called by the control plane.
func (s *watchers) tell(now clock.Instant, cause error) {
	s.mu.Lock()
	all := s.all
	if !s.over {
		s.over, s.cause, s.all = true, cause, nil
	}
	s.mu.Unlock()
	for gone := range all {
		(*gone)(now, cause)
	}
}
