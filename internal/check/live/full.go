package live

import (
	"errors"
	"time"

	"github.com/softhca/softhca/ib"
)

// postsInVain is the time after which a program that keeps posting to a full queue does so in vain, if completions
// wait all the time.
const postsInVain = time.Second

// refusal is the first of several posts that were refused, between which the program has polled nothing.
type refusal struct {
	at     *stack // nil for none
	since  time.Time
	polled uint32 // completions that the program had polled by then
}

// full reports whether all entries of the queue are taken, as hardware counts them: an entry is free again when the
// program has polled a completion that covers its request. After an overrun of the completion queue such completions
// are lost, so the checker forgets the requests. The lock is held.
func (rs *requests) full() bool {
	if rs.lost || len(rs.list) < int(rs.limit) {
		return false
	}
	if rs.cq != nil && rs.cq.cq.Failed() {
		rs.lose()
		return false
	}
	return true
}

// Full reports whether the adapter is to refuse the request because the queue is full.
func (p *Posting) Full() bool { return p != nil && p.full }

// refused notes that the adapter has refused a request because the queue is full, unless it is wrong in itself. A program
// may post until it is refused, and poll then. The lock is held.
func (p *Posting) refused(err error) {
	if !errors.Is(err, ib.ENOMEM) {
		return
	}
	to, n := p.to, len(p.to.list)
	report := func(at *stack, name, format string, args ...any) {
		p.c.sink.add(found(name, []call{{"posted here", at}, {"created here", p.owner.made}}, format, args...))
	}
	if !p.r.receive && to.signaled == 0 {
		report(p.r.posted, "send-queue-never-reclaimed", "the %d newest requests of %s are not signaled, and its send queue has %d entries: no completion can free them",
			n, p.owner.name, to.limit)
		return
	}
	wait, polled := p.c.completions(to)
	switch r := &to.refusal; {
	case !wait:
		*r = refusal{} // the program can only try again
	case r.at == nil || r.polled != polled:
		*r = refusal{p.r.posted, time.Now(), polled}
	case time.Since(r.since) <= postsInVain:
	case p.r.receive:
		report(r.at, "receive-queue-overfilled", "%s has %d entries, and %d receives are posted whose completions the program has not polled",
			p.owner.name, to.limit, n)
	default:
		report(r.at, "send-queue-overfilled", "the send queue of %s has %d entries, and %d requests are posted that no polled completion covers",
			p.owner.name, to.limit, n)
	}
}

// completions reports whether completions wait in the queues that get those of rs, and how many the program has polled
// there. The lock is held.
func (c *Checker) completions(rs *requests) (wait bool, polled uint32) {
	if rs.cq != nil {
		return rs.cq.progress()
	}
	for _, q := range c.qps {
		if q.srq == nil || q.srq.receives != rs || q.recvCQ == nil {
			continue
		}
		w, n := q.recvCQ.progress()
		wait, polled = wait || w, polled+n
	}
	return wait, polled
}

// progress reports whether completions wait in the queue, and how many the program has polled.
func (q *CQ) progress() (wait bool, polled uint32) {
	return q.cq.Pending() > 0, q.cq.Header().Cons.Load()
}
