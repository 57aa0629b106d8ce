package device

import (
	"sync"

	"github.com/softhca/softhca/internal/clock"
)

// Watch has gone called once, on the device's thread, when the device is
// closed (cause is nil; what gone sends still leaves) or has failed (now is
// zero, and nothing of the device may be used). If that was before, gone is
// called at once. stop ends the watch.
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

// watchers are told once that the device is gone.
type watchers struct {
	mu    sync.Mutex // guards what follows
	all   map[*func(now clock.Instant, cause error)]struct{}
	over  bool
	cause error // why, if it was a failure
}

// tell is called on the device's thread, or when it has none any more.
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
