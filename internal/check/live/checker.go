package live

import (
	"cmp"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
)

// Checker checks the use of an adapter.
type Checker struct {
	sink *Sink
	mtu  func() int // bytes of a packet's payload

	mu      lock.Mutex[lock.Check] // guards what follows, and the state of all objects
	closed  bool
	made    uint64 // objects so far
	objects map[*Object]struct{}
	qps     map[ib.QPN]*QP
	cqs     map[*CQ]struct{}
	regions regions
}

// New returns a checker of an adapter that is open. mtu returns the path MTU of the port in bytes.
// On a nil sink it returns nil.
func (s *Sink) New(mtu func() int) *Checker {
	if s == nil {
		return nil
	}
	c := &Checker{sink: s, mtu: mtu, objects: map[*Object]struct{}{}, qps: map[ib.QPN]*QP{}, cqs: map[*CQ]struct{}{}}
	c.regions.byKey = map[ib.LKey]*registration{}
	s.mu.Lock()
	s.open[c] = struct{}{}
	s.mu.Unlock()
	return c
}

// Tell reports what was found. The caller holds no lock.
func (c *Checker) Tell() {
	if c != nil {
		c.sink.Tell()
	}
}

// Close is called before the program closes the adapter. It notes what is lost and what is left.
func (c *Checker) Close() {
	if c == nil {
		return
	}
	c.sink.add(c.ends(leftAtClose, "in an adapter that the program closes", c.sink.here())...)
	c.sink.mu.Lock()
	delete(c.sink.open, c)
	c.sink.mu.Unlock()
}

// Left notes the objects of adapters that are not closed, and reports.
func (s *Sink) Left() {
	if s == nil {
		return
	}
	s.mu.Lock()
	var open []*Checker
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		s.add(c.ends("objects-left-at-exit", "at the end", nil)...)
	}
	s.Tell()
}

const (
	// leftAtClose is only advice for programs in Go, where Close releases the objects.
	leftAtClose = "objects-left-at-close"
	// maxLeft is the maximum number of objects that are reported.
	maxLeft = 64
)

// ends ends the checks of the adapter, and returns what is left in it.
func (c *Checker) ends(name, when string, at *stack) (all []finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for q := range c.cqs {
		all = append(all, q.overrun()...)
		all = append(all, q.Ends().lost(&q.Object, at)...)
	}
	for _, q := range c.qps {
		all = append(all, q.pathUnused()...)
	}
	left := make([]*Object, 0, len(c.objects))
	for o := range c.objects {
		left = append(left, o)
	}
	slices.SortFunc(left, func(a, b *Object) int { return cmp.Compare(a.seq, b.seq) })
	for _, o := range left[:min(len(left), maxLeft)] {
		all = append(all, found(name, []call{{"created here", o.made}, {"closed here", at}}, "%s is left %s", o.name, when))
	}
	return all
}
