package gsi

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/mad"
)

// outgoing is a MAD on its way out.
type outgoing struct {
	route route
	mad   mad.MAD
}

// queueStep is how many entries a queue begins with; it doubles up to its
// bound.
const queueStep = 16

// queue is a bounded ring of MADs that wait to be sent. The agents fill it; the thread that
// sends empties it.
type queue struct {
	max    int
	waited atomic.Int32 // count, for threads without the lock

	mu    lock.Mutex[lock.MADs] // guards what follows
	buf   []outgoing
	head  int
	count int
}

// len returns the number of MADs.
func (q *queue) len() int { return int(q.waited.Load()) }

// push adds an entry unless the queue is full.
func (q *queue) push(r *route, m *mad.MAD) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == len(q.buf) && !q.grow() {
		return false
	}
	e := &q.buf[(q.head+q.count)%len(q.buf)]
	e.route, e.mad = *r, *m
	q.count++
	q.waited.Store(int32(q.count))
	return true
}

// grow makes room for more entries and reports whether there may be more. mu is held.
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

// front returns the oldest entry, nil if there is none. It is valid until pop.
func (q *queue) front() *outgoing {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 {
		return nil
	}
	return &q.buf[q.head]
}

// pop removes the oldest entry.
func (q *queue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.head = (q.head + 1) % len(q.buf)
	q.count--
	q.waited.Store(int32(q.count))
}

// enqueue copies a MAD to the end of the queue of its route.
func (g *Interface) enqueue(r *route, m *mad.MAD) error {
	if !r.queue.push(r, m) {
		g.counters.QueueFull++
		return ErrQueueFull
	}
	return nil
}
