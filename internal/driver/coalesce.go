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
// for polling, and only posts of programs that have polled in time wait.
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
// subtracts 1, and a late poll subtracts lateCoalesce.
const (
	mostCoalesce  = 16
	lateCoalesce  = 8
	leastCoalesce = -64
)

// coalescer decides which posts wait, so that several are sent in one system
// call. They wait for the next poll of their program. So the program must have
// polled, soon after its posts and after more than one post; otherwise each of
// its posts is sent at once. The driver's lock guards all fields except waiting.
type coalescer struct {
	waiting atomic.Bool // posts wait

	since    clock.Instant // time of the first waiting post
	requests int           // waiting requests
	bytes    uint64        // payload of the waiting requests

	suppressed suppressed

	posts int           // posts since the last poll that could wait; those without a doorbell count as one
	last  clock.Instant // time of the latest of these posts
	score int           // posts wait while it is positive
}

// posted records a post and reports whether it waits; if not, the caller sends all
// waiting posts. attended means that programs poll and read the port.
func (c *coalescer) posted(now clock.Instant, work qp.Posted, attended bool) (waits bool) {
	if !work.Behind {
		return false
	}
	c.posts++
	c.last = now
	if !attended || c.score <= 0 {
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

// polled adjusts the score: whether waiting has paid, or would have paid, before
// this poll.
func (c *coalescer) polled(now clock.Instant) {
	c.posts += c.suppressed.posted()
	switch {
	case c.posts == 0:
		return
	case now.Sub(c.last) > coalesceTime:
		c.score = max(c.score-lateCoalesce, leastCoalesce)
	case c.posts == 1:
		c.score = max(c.score-1, leastCoalesce)
	default:
		c.score = min(c.score+1, mostCoalesce)
	}
	c.posts = 0
}

// waited reports whether posts have waited for at least long.
func (c *coalescer) waited(now clock.Instant, long time.Duration) bool {
	return c.waiting.Load() && now.Sub(c.since) >= long
}
