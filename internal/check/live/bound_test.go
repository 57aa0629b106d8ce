package live

import (
	"fmt"
	"testing"

	"github.com/softhca/softhca/ib"
)

// newChecker returns a checker, and what it reports.
func newChecker() (c *Checker, reported *[]*Finding) {
	reported = new([]*Finding)
	s := NewSink(func(f *Finding) { *reported = append(*reported, f) })
	return s.New(func() int { return 4096 }), reported
}

// deep calls f below n more calls.
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
}

// branch calls f below n more calls, whose places the bits of a number choose.
func branch(bits, n int, f func()) {
	switch {
	case n == 0:
		f()
	case bits%2 == 0:
		branch(bits/2, n-1, f)
	default:
		branch(bits/2, n-1, f)
	}
}

// TestStacksAreBounded looks at more calls than a stack holds, and at more stacks than a sink keeps.
func TestStacksAreBounded(t *testing.T) {
	c, _ := newChecker()
	s := c.sink
	deep(2*maxDepth, func() {
		k := s.here()
		frames, _ := k.frames(&s.lib)
		if k.n != maxDepth || len(frames) != maxFrames {
			t.Errorf("a deep stack has %d calls and %d frames: want %d and %d", k.n, len(frames), maxDepth, maxFrames)
		}
	})
	var kept []*stack
	for range 2 {
		kept = append(kept, s.here())
	}
	if kept[0] != kept[1] || s.here() == kept[0] {
		t.Error("one place has two stacks, or two places have one")
	}
	for i := len(s.stacks); i < maxStacks; i++ {
		s.stacks[pcs{uintptr(i)}] = new(stack)
	}
	if s.here(); len(s.stacks) != 1 {
		t.Errorf("%d stacks are kept: want one, after the bound of %d was reached", len(s.stacks), maxStacks)
	}
}

// TestFindingsAreBounded finds more than a sink reports.
func TestFindingsAreBounded(t *testing.T) {
	c, reported := newChecker()
	for i := range maxKnown + 10 {
		for range 2 {
			c.sink.add(found(fmt.Sprint(i), nil, "text"))
		}
	}
	if c.Tell(); len(*reported) != maxKnown {
		t.Errorf("%d findings are reported: want %d", len(*reported), maxKnown)
	}
}

// TestEndedRegionsAreBounded deregisters more regions than the checker remembers, and uses a key again.
func TestEndedRegionsAreBounded(t *testing.T) {
	c, _ := newChecker()
	for i := range maxEnded + 10 {
		c.Registered(RegionView{Key: ib.LKey(i)}).Deregistered(nil, Use{})
	}
	_, oldest := c.regions.byKey[9]
	_, next := c.regions.byKey[10]
	if oldest || !next || len(c.regions.ended) != maxEnded || len(c.regions.byKey) != maxEnded {
		t.Errorf("%d ended regions are remembered, the first of them %t, one before %t: want %d", len(c.regions.ended), next, oldest, maxEnded)
	}
	again := c.Registered(RegionView{Key: 20})
	if c.regions.byKey[20] != again.now || len(c.regions.ended) != maxEnded-1 {
		t.Error("a key that is used again still belongs to its first region")
	}
}

// TestLeftObjectsAreBounded leaves more objects in an adapter than are reported.
func TestLeftObjectsAreBounded(t *testing.T) {
	c, reported := newChecker()
	c.Made("thing", 1).Destroyed(nil, nil)
	for i := range maxLeft + 10 {
		branch(i, 8, func() { c.Made("thing", uint32(i)) }) // each at another place
	}
	c.Close()
	if all, _ := c.ends(nil); len(all) != 0 {
		t.Errorf("%d objects are left in a closed adapter", len(all))
	}
	c.Tell()
	if n := len(*reported); n != maxLeft {
		t.Errorf("%d objects are reported: want %d", n, maxLeft)
	}
}

// TestNil makes every call on nil, as package verbs does if the program is not checked.
func TestNil(t *testing.T) {
	var (
		s *Sink
		c = s.New(nil)
		o = c.Made("", 0)
		q = c.MadeCQ(nil)
		p = c.MadeQP(nil, false, QPUses{})
		r = c.Registered(RegionView{})
		m = c.MadeSRQ(nil, 0, nil)
	)
	s.Tell()
	s.Left()
	c.Tell()
	c.Close()
	c.Closed()
	o.Destroyed(nil, nil)
	q.Begin()
	q.Completed(nil)
	q.End()
	q.Destroyed(nil, nil, q.Ends())
	p.Begin()
	p.Send(nil, 0, nil).Done(nil)
	p.Receive(nil).Done(nil)
	p.End()
	p.Modified(nil, 0)
	p.Destroyed(nil, nil, p.Ends())
	m.Begin()
	m.Receive(nil).Done(nil)
	m.End()
	m.Resized()
	m.Destroyed(nil, nil)
	r.Reregistered(nil, RegionView{}, r.Goes())
	r.Deregistered(nil, Use{})
	if c.Used(o, q.Base(), p.Base(), r.Base(), m.Base()) || o != nil || q != nil || p != nil || r != nil || m != nil {
		t.Error("a checker that does not exist makes objects")
	}
}
