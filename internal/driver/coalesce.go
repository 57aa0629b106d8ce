package driver

import (
	"sync/atomic"
	"time"

	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// coalesceTime is how long a post waits at most for others to leave with, if its
// program goes on calling: less than it takes to wake a thread. A timer would
// bound the wait of a program that does not, but setting one costs what the
// waiting saves; so the goroutine looks when it looks after polling anyway, and
// posts wait only of programs that have been seen to poll in time.
const coalesceTime = 20 * time.Microsecond

// A post does not wait that makes so many requests, or bytes of payload, of
// all that wait: the first fill what one system call takes, beside the second
// a call is little.
const (
	coalesceRequests = 64
	coalesceBytes    = 16 << 10
)

// Posts wait while that has paid: each poll before which there were several that
// could wait earns one, up to mostCoalesce; one before which there was one costs
// one, and one that comes late costs lateCoalesce.
const (
	mostCoalesce  = 16
	lateCoalesce  = 8
	leastCoalesce = -64
)

// coalescer decides which posts wait for others, so that they leave in one
// system call. They wait for the next poll of the program that posts them; so
// the program must have been polling, and its polls must have come soon after
// its posts, and after more than one. A program that does otherwise has each
// post sent at once. It is guarded by the driver's lock, but for waiting.
type coalescer struct {
	waiting atomic.Bool // posts wait

	since    clock.Instant // the first of them was made
	requests int           // that wait
	bytes    uint64        // of payload of these

	spared spared

	posts int           // that could wait, since the last poll; those without a doorbell as one
	last  clock.Instant // when the latest of them was made
	score int           // posts wait while it is positive
}

// posted takes note of a post and reports whether it waits; if not, all that
// waits is to be sent. attended says that programs poll, and see to the port.
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

// left is told that what was posted is about to be sent.
func (c *coalescer) left(now clock.Instant, shard *hca.Shard) {
	if len(c.spared) > 0 {
		c.spared.end(now, shard)
	}
	if c.requests, c.bytes = 0, 0; c.waiting.Load() {
		c.waiting.Store(false)
	}
}

// polled learns from a poll whether it paid, or would have, that posts wait.
func (c *coalescer) polled(now clock.Instant) {
	c.posts += c.spared.posted()
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

// waited reports whether posts have waited for so long.
func (c *coalescer) waited(now clock.Instant, long time.Duration) bool {
	return c.waiting.Load() && now.Sub(c.since) >= long
}
