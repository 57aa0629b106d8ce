package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
)

// Checker checks the use of an adapter.
type Checker struct {
	sink   *Sink
	opened *stack
	mtu    func() int // bytes of a packet's payload

	mu      lock.Mutex[lock.Check] // guards what follows, and the state of all objects
	closed  bool
	lost    []*closing      // completion queues of the closed adapter
	made    uint64          // objects so far
	ended   map[string]bool // kinds of which the program has destroyed objects
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
	c := &Checker{sink: s, mtu: mtu, opened: s.here(), ended: map[string]bool{}, objects: map[*Object]struct{}{}, qps: map[ib.QPN]*QP{}, cqs: map[*CQ]struct{}{}}
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

// closing is a completion queue of an adapter that the program closes there.
type closing struct {
	cq    *CQ
	count Unpolled
	at    *stack
}

// Closed is called after Close, when the adapter is closed. It notes completions that are lost.
func (c *Checker) Closed() {
	if c == nil {
		return
	}
	c.mu.Lock()
	all := c.lost
	c.lost = nil
	c.mu.Unlock()
	for _, l := range all {
		c.sink.add(l.count.lost(&l.cq.Object, l.at)...)
	}
}

// Close is called before the program closes the adapter. It notes what is left.
func (c *Checker) Close() {
	if c == nil {
		return
	}
	all, refused := c.ends(c.sink.here())
	for _, o := range refused {
		if unacked, _ := o.taken(); unacked > 0 {
			all = append(all, o.unacknowledged())
		}
	}
	c.sink.add(all...)
	c.sink.mu.Lock()
	delete(c.sink.open, c)
	c.sink.mu.Unlock()
}

// Left notes adapters that are not closed, and reports.
func (s *Sink) Left() {
	if s == nil {
		return
	}
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, c := range open {
		s.add(c.left())
	}
	s.Tell()
}

const (
	leftAtClose = "objects-left-at-close"
	leftAtExit  = "objects-left-at-exit"
	maxLeft     = 64 // objects of an adapter that are reported
)

// ends ends the checks of the adapter. It returns what is left, and the objects that the program could not destroy
// because of their events. Close releases all objects, and many programs in Go rely on that. So an object is only
// left if the program has destroyed others of its kind.
func (c *Checker) ends(at *stack) (all []finding, refused []*Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil
	}
	c.closed = true
	for q := range c.cqs {
		all = append(all, q.overrun()...)
		c.lost = append(c.lost, &closing{q, q.Ends(), at})
	}
	for _, q := range c.qps {
		all = append(all, q.pathUnused()...)
	}
	n := 0
	for _, o := range c.inOrder() {
		if o.refused != nil {
			refused = append(refused, o)
			continue
		}
		if !c.ended[o.kind] || n == maxLeft {
			continue
		}
		all = append(all, found(leftAtClose, []call{{"created here", o.made}, {"closed here", at}}, "%s is left in an adapter that the program closes", o.name))
		n++
	}
	return all, refused
}

// left returns the finding about an adapter that the program has not closed.
func (c *Checker) left() finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	text := "the program has not closed an adapter"
	switch all := c.inOrder(); len(all) {
	case 0:
	case 1:
		text = fmt.Sprintf("%s; %s is left in it", text, all[0].name)
	default:
		text = fmt.Sprintf("%s; %s and %d more objects are left in it", text, all[0].name, len(all)-1)
	}
	return found(leftAtExit, []call{{"opened here", c.opened}}, "%s", text)
}

// inOrder returns the objects in the order of their creation. The lock is held.
func (c *Checker) inOrder() []*Object {
	return slices.SortedFunc(maps.Keys(c.objects), func(a, b *Object) int { return cmp.Compare(a.seq, b.seq) })
}
