package verbs

import (
	"sync"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// Inside runs f as the adapter's thread and sends what comes of it. It is for
// package rdmacm, which drives the adapter's communication manager. f must not
// block and not call Inside. Errors: f's, ErrInvalidHCA, or that of an adapter
// that has failed.
func (c *Context) Inside(f func(now clock.Instant, h *hca.HCA) error) error {
	if !c.usable() {
		return ErrInvalidHCA
	}
	return c.do(func(now clock.Instant) error { return f(now, c.hca) })
}

// Engine returns the queue pair inside the adapter, nil once it is destroyed.
// It is for package rdmacm, on the adapter's thread.
func (q *QP) Engine() *qp.QP {
	if q == nil || q.destroyed.Load() {
		return nil
	}
	return q.qp
}

// NewCompChannelOf returns a completion channel for at most so many CQs, of
// which its size follows: one for 1024 takes 16 KiB. It is for package rdmacm,
// whose queue pairs have two each.
func NewCompChannelOf(cqs int) *CompChannel {
	return &CompChannel{ch: make(chan *CQ, 2*cqs), most: cqs}
}

// Watch has gone called once, on the adapter's thread, when the adapter is
// closed (cause is nil; what gone sends still leaves) or has failed (now is
// zero, and nothing of the adapter may be used). If that was before, gone is
// called at once. stop ends the watch. It is for package rdmacm.
func (c *Context) Watch(gone func(now clock.Instant, cause error)) (stop func()) {
	w := &watcher{gone: gone}
	if over, cause := c.watchers.add(w); over {
		gone(0, cause)
	}
	return func() { c.watchers.remove(w) }
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
