package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/lock"
	"github.com/softhca/softhca/internal/qp"
)

// Object is an object of the program. Its methods may be called on nil.
type Object struct {
	c    *Checker
	kind string
	seq  uint64
	made *stack

	// The lock of the checker guards what follows.
	name      string    // such as "queue pair 0x000011"; only a memory region gets another one
	uses      []*Object // cannot be destroyed before it
	ended     *stack    // where it was destroyed; nil before
	refused   *stack    // where it could not be destroyed because of its events; nil if that has not happened
	refusedAt time.Time // when that happened first
	acked     uint64    // events about it that were acknowledged by then
	taken     Taken     // set with refused
}

// Taken returns the numbers of events about an object that the program has taken and not acknowledged, and of those
// that it has acknowledged. It takes a lock, so the caller must not hold that of the checker.
type Taken func() (unacked int, acked uint64)

// acknowledges is the time after which a program that cannot destroy an object, because another goroutine is about
// to acknowledge its events, has done so.
const acknowledges = 3 * time.Second

// Made returns a new object with a kind, a number if that is not 0, and the objects that it uses.
func (c *Checker) Made(kind string, number uint32, uses ...*Object) *Object {
	if c == nil {
		return nil
	}
	o := new(Object)
	c.make(o, kind, named(kind, number), uses...)
	return o
}

// named returns the name of an object.
func named(kind string, number uint32) string {
	if number == 0 {
		return article(kind)
	}
	return fmt.Sprintf("%s %d", kind, number)
}

// article returns the name of a kind with its article.
func article(name string) string {
	switch {
	case name == "device memory":
		return name
	case strings.HasPrefix(name, "RDMA"), strings.ContainsRune("aAEX", rune(name[0])):
		return "an " + name
	}
	return "a " + name
}

// make fills in a new object.
func (c *Checker) make(o *Object, kind, name string, uses ...*Object) {
	*o = Object{c: c, kind: kind, name: name, made: c.sink.here()}
	for _, u := range uses {
		if u != nil {
			o.uses = append(o.uses, u)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	o.seq = c.made
	c.objects[o] = struct{}{}
}

// Used notes that a call has used objects; calls that destroy them are not noted here. It reports whether one of
// the objects was destroyed before.
func (c *Checker) Used(all ...*Object) bool {
	if c == nil {
		return false
	}
	for _, o := range all {
		if f, ok := o.used(); ok {
			c.sink.add(f)
			return true
		}
	}
	return false
}

// used returns the finding about the use of an object that was destroyed, and whether it was.
func (o *Object) used() (f finding, ok bool) {
	if o == nil {
		return f, false
	}
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.ended == nil || o.c.closed {
		return f, false
	}
	calls := []call{{"used here", o.c.sink.here()}, {"destroyed here", o.ended}, {"created here", o.made}}
	return found("used-after-destroy", calls, "the program uses %s after it has destroyed it", o.name), true
}

// Destroyed notes the outcome of a call that destroys the object. taken is nil for an object without events.
func (o *Object) Destroyed(err error, taken Taken) {
	if o == nil {
		return
	}
	at, unacked, acked := o.c.sink.here(), 0, uint64(0)
	if taken != nil {
		unacked, acked = taken()
	}
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	switch {
	case o.c.closed:
	case err == nil && o.ended == nil:
		o.ended, o.c.ended[o.kind] = at, true
		delete(o.c.objects, o)
	case err == nil, o.ended != nil:
		// A program may destroy an object twice, the second time by a deferred call: it only gets an error.
	case errors.Is(err, ib.EBUSY) && unacked > 0 && (o.refused == nil || o.acked != acked):
		o.refused, o.refusedAt, o.acked, o.taken = at, time.Now(), acked, taken
	case errors.Is(err, ib.EBUSY) && unacked > 0:
		if time.Since(o.refusedAt) > acknowledges {
			o.c.sink.add(o.unacknowledged())
		}
	case errors.Is(err, ib.EBUSY):
		o.refused = nil
		o.c.sink.add(o.busy(at)...)
	}
}

// unacknowledged returns the finding about an object that cannot be destroyed because of its events. The lock is
// held, or the adapter is closed.
func (o *Object) unacknowledged() finding {
	return found("async-events-not-acknowledged", []call{{"destroyed here", o.refused}, {"created here", o.made}},
		"%s cannot be destroyed: the program has taken events about it, and has not acknowledged them", o.name)
}

// busy returns the finding about an object that others use. Without another object, its events were the reason,
// which are acknowledged now. The lock is held.
func (o *Object) busy(at *stack) []finding {
	first, n := (*Object)(nil), 0
	for u := range o.c.objects {
		if slices.Contains(u.uses, o) {
			if n++; first == nil || u.seq < first.seq {
				first = u
			}
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s cannot be destroyed: %s uses it", o.name, first.name)
	if n > 1 {
		text = fmt.Sprintf("%s, and %d more", text, n-1)
	}
	return []finding{found("destroy-refused", []call{{"destroyed here", at}, {"the user was created here", first.made}, {"created here", o.made}}, "%s", text)}
}

// CQ is a completion queue.
type CQ struct {
	Object
	Turn lock.Mutex[lock.Checked] // makes the calls that take completions take turns
	cq   *qp.CQ
	due  int // completions that it is to get; the lock of the checker guards it
	// polls changes when a poll begins, and when it ends: it is odd during a poll.
	polls atomic.Uint64
}

// MadeCQ returns a new completion queue.
func (c *Checker) MadeCQ(cq *qp.CQ) *CQ {
	if c == nil {
		return nil
	}
	q := &CQ{cq: cq}
	c.make(&q.Object, "completion queue", named("completion queue", cq.Number()))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cqs[q] = struct{}{}
	return q
}

// Base returns the object of the queue; nil for nil.
func (q *CQ) Base() *Object {
	if q == nil {
		return nil
	}
	return &q.Object
}

// overrun returns a finding if the queue has overrun.
func (q *CQ) overrun() []finding {
	if !q.cq.Failed() {
		return nil
	}
	return []finding{found("cq-overrun", []call{{"created here", q.made}}, "%s has %d entries, and more completions came than it holds", q.name, q.cq.Cap())}
}

// Unpolled are the completions that are lost with an object. Flushed requests do not count: they have done nothing.
type Unpolled struct {
	succeeded, failed int
	queues            []counted
}

// counted is a completion queue whose completions were counted, and its polls until then.
type counted struct {
	cq    *CQ
	polls uint64
}

// count counts the completions of a queue that are of a queue pair; of all if that is 0.
func (u *Unpolled) count(q *CQ, of ib.QPN) {
	u.queues = append(u.queues, counted{q, q.polls.Load()})
	ok, failed := q.cq.Unpolled(of)
	u.succeeded, u.failed = u.succeeded+ok, u.failed+failed
}

// polled reports whether another goroutine may have polled some of the completions since they were counted.
func (u *Unpolled) polled() bool {
	return slices.ContainsFunc(u.queues, func(c counted) bool { return c.polls%2 != 0 || c.cq.polls.Load() != c.polls })
}

// Ends is called before the program destroys the queue.
func (q *CQ) Ends() (u Unpolled) {
	if q != nil {
		u.count(q, 0)
	}
	return u
}

// Destroyed notes the outcome.
func (q *CQ) Destroyed(err error, taken Taken, u Unpolled) {
	if q == nil {
		return
	}
	if err == nil {
		q.c.sink.add(append(q.overrun(), u.lost(&q.Object, q.c.sink.here())...)...)
	}
	q.Object.Destroyed(err, taken)
	if err == nil {
		q.c.mu.Lock()
		defer q.c.mu.Unlock()
		delete(q.c.cqs, q)
	}
}

// lost returns a finding if completions were lost with an object, which has ended there.
func (u *Unpolled) lost(o *Object, at *stack) []finding {
	calls := []call{{"created here", o.made}, {"destroyed here", at}}
	switch {
	case u.polled():
	case u.failed > 0:
		return []finding{found("error-never-polled", calls, "completions of %s with an error that the program has never polled: %d", o.name, u.failed)}
	case u.succeeded > 0:
		return []finding{found("completions-never-polled", calls, "completions of %s that the program has never polled: %d", o.name, u.succeeded)}
	}
	return nil
}
