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
	w := &watcher{gone: gone}
	if over, cause := d.watchers.add(w); over {
		gone(0, cause)
	}
	return func() { d.watchers.remove(w) }
}

type watcher struct {
	gone func(now clock.Instant, cause error)
}

// watchers are told once that the adapter is gone.
type watchers struct {
	mu    sync.Mutex // guards what follows
	all   map[*watcher]struct{}
	over  bool
	cause error // why, if it was a failure
}

// add reports whether it is too late, and why.
func (s *watchers) add(w *watcher) (over bool, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return true, s.cause
	}
	if s.all == nil {
		s.all = make(map[*watcher]struct{})
	}
	s.all[w] = struct{}{}
	return false, nil
}

func (s *watchers) remove(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, w)
}

// tell is called on the adapter's thread, or when it has none any more.
func (s *watchers) tell(now clock.Instant, cause error) {
	s.mu.Lock()
	all := s.all
	if s.over {
		all = nil
	} else {
		s.over, s.cause, s.all = true, cause, nil
	}
	s.mu.Unlock()
	for w := range all {
		w.gone(now, cause)
	}
}
