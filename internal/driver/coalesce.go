package driver

import (
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/shard"
)

// coalesceTime is the maximum time that a post waits to be sent with later posts
// while its program keeps making calls: less than it takes to wake a thread. A
// timer could bound the wait for a program that stops, but setting it would cost
// as much as waiting saves. Instead the goroutine sends such posts when it checks
// for polling, and only posts of programs that have polled, or gone back to sleep,
// in time wait.
const coalesceTime = 20 * time.Microsecond

// A post that brings the waiting requests or payload bytes to these numbers does
// not wait: that number of requests fills one system call, and for that number of
// bytes the cost of a system call is small.
const (
	coalesceRequests = 64
	coalesceBytes    = 16 << 10
)

// Posts wait while waiting has paid. A poll that follows several posts that could
// wait adds 1 to the score, up to mostCoalesce; a poll that follows one post
// subtracts 1, and a late poll subtracts lateCoalesce. A sleep counts as a poll does,
// with a score of its own.
const (
	mostCoalesce  = 16
	lateCoalesce  = 8
	leastCoalesce = -64
)

// attendance says who reads the port, if not the goroutine.
type attendance uint8

const (
	byGoroutine attendance = iota // or by a thread that sleeps at the port now
	byPollers
	bySleeper // that has left the port to run its program
)

// benefit tells whether waiting pays.
type benefit struct {
	posts int           // that could wait, since the last end of a wait; those without a doorbell count as one
	last  clock.Instant // time of the latest of these posts
	score int           // posts wait while it is positive
}

// end adjusts the score: whether waiting has paid, or would have paid, until now.
func (b *benefit) end(now clock.Instant) {
	switch {
	case b.posts == 0:
		return
	case now.Sub(b.last) > coalesceTime:
		b.score = max(b.score-lateCoalesce, leastCoalesce)
	case b.posts == 1:
		b.score = max(b.score-1, leastCoalesce)
	default:
		b.score = min(b.score+1, mostCoalesce)
	}
	b.posts = 0
}

// coalescer decides which posts wait, so that several are sent in one system
// call. They wait for the next poll of their program, or for its next sleep at the
// port. So the program must have polled or slept, soon after its posts and after more
// than one post; otherwise each of its posts is sent at once. While programs poll, a post
// to an empty queue never waits. The driver's lock guards all fields except waiting.
type coalescer struct {
	waiting atomic.Bool // posts wait

	since    clock.Instant // time of the first waiting post
	requests int           // waiting requests
	bytes    uint64        // payload of the waiting requests

	suppressed suppressed

	polling, sleeping benefit
}

// posted records a post and reports whether it waits; if not, the caller sends all
// waiting posts.
func (c *coalescer) posted(now clock.Instant, work qp.Posted, by attendance) (waits bool) {
	b := &c.polling
	if by == bySleeper {
		b = &c.sleeping
	} else if !work.Behind {
		return false
	}
	b.posts++
	b.last = now
	if by == byGoroutine || b.score <= 0 {
		return false
	}
	if c.requests == 0 {
		c.since = now
	}
	c.requests += work.Requests
	c.bytes += work.Bytes
	if c.requests >= coalesceRequests || c.bytes >= coalesceBytes || now.Sub(c.since) >= coalesceTime {
		return false
	}
	c.waiting.Store(true)
	return true
}

// left records that all posts are about to be sent.
func (c *coalescer) left(now clock.Instant, shard *shard.Shard) {
	if len(c.suppressed) > 0 {
		c.suppressed.end(now, shard)
	}
	if c.requests, c.bytes = 0, 0; c.waiting.Load() {
		c.waiting.Store(false)
	}
}

// polled is called by a poll.
func (c *coalescer) polled(now clock.Instant) {
	c.polling.posts += c.suppressed.posted()
	c.polling.end(now)
}

// slept is called by a thread that is about to sleep at the port.
func (c *coalescer) slept(now clock.Instant) {
	c.sleeping.posts += c.suppressed.posted()
	c.sleeping.end(now)
}

// waited reports whether posts have waited for at least long.
func (c *coalescer) waited(now clock.Instant, long time.Duration) bool {
	return c.waiting.Load() && now.Sub(c.since) >= long
}
