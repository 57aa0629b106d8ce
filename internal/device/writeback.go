package device

import (
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
)

// writeBacks writes memory back to its file, for a FLUSH, outside of the shard. A goroutine does
// one job after another, and ends when there is none. Each connection has at most one job, which is
// cancelled when the connection ends, so there are never more jobs than queue pairs.
type writeBacks struct {
	// write writes memory back, and ended reports its end. It fails when the device is gone.
	write func(mem []byte) error
	ended func(w qp.WriteBack, ok bool) error

	mu    lock.Mutex[lock.WriteBacks] // guards what follows
	queue []qp.WriteBack
	busy  bool // the goroutine runs
	shut  bool
}

// add is called by the shard.
func (s *writeBacks) add(w qp.WriteBack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return
	}
	s.queue = append(s.queue, w)
	if !s.busy {
		s.busy = true
		go s.run()
	}
}

// cancel removes a waiting job. The shard calls it.
func (s *writeBacks) cancel(job uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(w qp.WriteBack) bool { return w.Job == job })
}

func (s *writeBacks) run() {
	for w, ok := s.next(); ok; w, ok = s.next() {
		if s.ended(w, s.write(w.Mem) == nil) != nil {
			s.stop()
		}
	}
}

// next takes the oldest job. Without one, the goroutine must end.
func (s *writeBacks) next() (w qp.WriteBack, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy = len(s.queue) > 0; !s.busy {
		s.queue = nil
		return w, false
	}
	w, s.queue[0] = s.queue[0], qp.WriteBack{}
	s.queue = s.queue[1:]
	return w, true
}

// stop discards the waiting jobs. It does not wait for the job in progress.
func (s *writeBacks) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut, s.queue = true, nil
}

// writtenBack reports the end of a job to the engine.
func (d *Device) writtenBack(w qp.WriteBack, ok bool) error {
	return d.Do(func(now clock.Instant) error {
		d.HCA.WrittenBack(now, w, ok)
		return nil
	})
}

// examine sets whether the memory of a region with the right FLUSH_PERSISTENT can be written
// back. Other regions do not need it.
func examine(c *memory.RegionConfig, access ib.Access, buf []byte) {
	c.Durable = access&ib.AccessFlushPersistent != 0 && durable(buf)
}
