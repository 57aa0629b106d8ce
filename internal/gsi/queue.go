package gsi

import "github.com/softhca/softhca/mad"

// outgoing is a MAD on its way out.
type outgoing struct {
	route route
	mad   mad.MAD
}

// queueStep is how many entries a queue begins with; it doubles up to its
// bound.
const queueStep = 16

// queue is a bounded ring of MADs that wait to be sent.
type queue struct {
	max   int
	buf   []outgoing
	head  int
	count int
}

// push returns the new last entry for the caller to fill, nil when the queue
// is full.
func (q *queue) push() *outgoing {
	if q.count == len(q.buf) && !q.grow() {
		return nil
	}
	e := &q.buf[(q.head+q.count)%len(q.buf)]
	q.count++
	return e
}

// grow makes room for more entries and reports whether there may be more.
func (q *queue) grow() bool {
	n := min(max(2*len(q.buf), queueStep), q.max)
	if n <= len(q.buf) {
		return false
	}
	buf := make([]outgoing, n)
	k := copy(buf, q.buf[q.head:])
	copy(buf[k:], q.buf[:q.head])
	q.buf, q.head = buf, 0
	return true
}

// front returns the oldest entry, nil if there is none. It is valid until the
// next push.
func (q *queue) front() *outgoing {
	if q.count == 0 {
		return nil
	}
	return &q.buf[q.head]
}

// pop removes the oldest entry.
func (q *queue) pop() {
	q.head = (q.head + 1) % len(q.buf)
	q.count--
}

// enqueue copies a MAD to the end of the queue.
func (g *Interface) enqueue(r *route, m *mad.MAD) error {
	e := g.queue.push()
	if e == nil {
		g.counters.QueueFull++
		return ErrQueueFull
	}
	e.route, e.mad = *r, *m
	return nil
}
